import type { Command } from 'commander'

export const addKernel = (program: Command): void => {
  const kernel = program.command('kernel').description('the Jupyter kernel "TypeScript (TeamTR)"')
  kernel.command('start').description('serve one notebook; Jupyter itself calls this')
    .argument('<connection-file>')
    .action(async (file: string) => {
      const { serve } = await import('../kernel/server.js')
      await serve(file)
    })
}
