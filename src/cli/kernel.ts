import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'

interface Where { user?: boolean; prefix?: string }

export const addKernel = (program: Command): void => {
  const kernel = program.command('kernel').description('the Jupyter kernel "TypeScript (TeamTR)": offer it to any Jupyter or VS Code on this machine')

  kernel.command('install').description('offer the kernel to Jupyter')
    .option('--user', 'for this user (the default)')
    .option('--prefix <dir>', 'for one environment, for example a venv')
    .action(async (where: Where) => {
      const { installKernel } = await import('../kernel/kernelspec.js')
      console.log(`installed: ${installKernel(await dataFolder(where))}`)
    })

  kernel.command('list').description('where the kernel is installed')
    .option('--prefix <dir>', 'look in this environment too')
    .action(async ({ prefix }: Where) => {
      const { installedKernels } = await import('../kernel/kernelspec.js')
      const found = installedKernels(prefix)
      for (const { folder, displayName, works } of found) console.log(`${displayName}  ${folder}${works ? '' : '  (broken: what it starts is gone)'}`)
      if (found.length === 0) console.log('not installed; the notebooks of this repository find it without: npm run notebooks')
    })

  kernel.command('remove').description('take the kernel away again')
    .option('--user', 'for this user (the default)')
    .option('--prefix <dir>', 'from one environment')
    .action(async (where: Where) => {
      const { removeKernel } = await import('../kernel/kernelspec.js')
      console.log(`removed: ${removeKernel(await dataFolder(where))}`)
    })

  kernel.command('doctor').description('what is missing for notebooks: Jupyter, the kernelspec, the native engine; exit code 1 if the first or second is')
    .action(doctor)

  kernel.command('start', { hidden: true }).description('serve one notebook; Jupyter itself calls this')
    .argument('<connection-file>')
    .action(async (file: string) => {
      const { serve } = await import('../kernel/server.js')
      await serve(file)
    })
}

const dataFolder = async ({ user, prefix }: Where): Promise<string> => {
  const [{ prefixFolder, userFolder }, { InputError }] = await Promise.all([import('../kernel/kernelspec.js'), import('../util/errors.js')])
  if (user && prefix) throw new InputError('--user and --prefix: give one of them')
  return prefix ? prefixFolder(prefix) : userFolder()
}

const doctor = async (): Promise<void> => {
  const { installedKernels } = await import('../kernel/kernelspec.js')
  const { cacheFolder } = await import('../util/cache.js')
  const { packageRoot } = await import('../kernel/tslab.js')
  const venv = join(cacheFolder(), 'jupyter', 'bin', 'jupyter')
  const jupyter = ['jupyter', venv].find((command) => spawnSync(command, ['lab', '--version'], { stdio: 'ignore' }).status === 0)
  const own = join(packageRoot, '.jupyter', 'kernels', 'teamtr', 'kernel.json')
  const installed = installedKernels().filter(({ works }) => works)
  const native = existsSync(join(packageRoot, 'node_modules', '@tensorflow', 'tfjs-node-gpu', 'lib', 'napi-v8', 'tfjs_binding.node'))
  console.log(`JupyterLab     ${jupyter ?? 'missing: "npm run notebooks" installs it into the cache, or: pip install jupyterlab'}`)
  console.log(`kernelspec     ${installed[0]?.folder ?? (existsSync(own) ? `${own} (this repository only; "teamtr kernel install" offers it everywhere)` : 'missing: teamtr kernel install')}`)
  console.log(`native engine  ${native ? 'built' : 'missing (training in notebooks runs on wasm, slower): npm run native'}`)
  if (!jupyter || (installed.length === 0 && !existsSync(own))) process.exitCode = 1
}
