import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { InputError } from '../util/errors.js'
import { writeAtomic } from '../util/files.js'
import { packageRoot } from './tslab.js'

/** The folder name under `kernels/`, and the name that notebooks carry. */
export const kernelName = 'teamtr'

/** What Jupyter needs to know to start the kernel from anywhere: https://jupyter-client.readthedocs.io, "Kernel specs". */
export const kernelspec = (): object => ({
  argv: [process.execPath, join(packageRoot, 'bin', 'teamtr.js'), 'kernel', 'start', '{connection_file}'],
  display_name: 'TypeScript (TeamTR)',
  language: 'typescript',
  interrupt_mode: 'signal',
})

/** Jupyter's per-user data folder. */
export const userFolder = (): string => {
  if (process.env.JUPYTER_DATA_DIR) return process.env.JUPYTER_DATA_DIR
  if (process.platform === 'darwin') return join(homedir(), 'Library', 'Jupyter')
  if (process.platform === 'win32') return join(process.env.APPDATA ?? homedir(), 'jupyter')
  return join(process.env.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'jupyter')
}

/** `PREFIX/share/jupyter`: where an environment (venv, conda) keeps its data. */
export const prefixFolder = (prefix: string): string => join(prefix, 'share', 'jupyter')

/** Write the kernelspec below a Jupyter data folder. @returns the file. @throws InputError when it cannot be written */
export const installKernel = (dataFolder: string): string => {
  const file = join(dataFolder, 'kernels', kernelName, 'kernel.json')
  writeAtomic(file, `${JSON.stringify(kernelspec(), null, 2)}\n`)
  return file
}

/** One installed kernelspec. */
export interface InstalledKernel {
  readonly folder: string
  readonly displayName: string
  /** It starts a file that is still there. */
  readonly works: boolean
}

/** Every kernelspec of this kernel that Jupyter could find: `JUPYTER_PATH`, the user's folder, the system's, and `prefix` if given. */
export const installedKernels = (prefix?: string): InstalledKernel[] => {
  const folders = [
    ...(process.env.JUPYTER_PATH?.split(delimiter).filter(Boolean) ?? []),
    userFolder(),
    ...(prefix ? [prefixFolder(prefix)] : []),
    '/usr/local/share/jupyter',
    '/usr/share/jupyter',
  ]
  return [...new Set(folders)].flatMap((folder) => {
    const kernels = join(folder, 'kernels')
    return existsSync(kernels) ? readdirSync(kernels).filter((name) => name === kernelName).map((name) => inspect(join(kernels, name))) : []
  })
}

const inspect = (folder: string): InstalledKernel => {
  try {
    const spec = JSON.parse(readFileSync(join(folder, 'kernel.json'), 'utf8')) as { display_name?: string; argv?: string[] }
    const script = spec.argv?.[1]?.replace('{resource_dir}', folder)
    return { folder, displayName: spec.display_name ?? kernelName, works: script !== undefined && existsSync(script) }
  } catch {
    return { folder, displayName: kernelName, works: false }
  }
}

/** Remove the kernelspec below a Jupyter data folder. @throws InputError when there is none */
export const removeKernel = (dataFolder: string): string => {
  const folder = join(dataFolder, 'kernels', kernelName)
  if (!existsSync(join(folder, 'kernel.json'))) throw new InputError(`${folder}: no kernel here; "teamtr kernel list" shows where it is installed`)
  rmSync(folder, { recursive: true })
  return folder
}
