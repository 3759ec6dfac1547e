import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { cacheFolder } from '../src/util/cache.js'

/**
 * The python of the project's own Jupyter (scripts/jupyter.mjs). CI makes it when it is not there; elsewhere it is undefined then, since making
 * it downloads a good deal: `npm run notebooks:check` does.
 */
export const jupyterPython = (): string | undefined => {
  const python = join(cacheFolder(), 'jupyter', process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')
  if (existsSync(python)) return python
  if (process.env.CI !== 'true') return undefined
  const script = `const { jupyterPython } = await import(${JSON.stringify(pathToFileURL('scripts/jupyter.mjs').href)}); jupyterPython()`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`CI needs Jupyter: ${stderr}`)
  return python
}

export const noJupyter = 'needs the project’s Jupyter: npm run notebooks:check makes it'

/** The environment in which Jupyter finds this checkout's kernel. */
export const jupyterEnvironment = (): NodeJS.ProcessEnv => ({ ...process.env, JUPYTER_PATH: join(process.cwd(), '.jupyter') })
