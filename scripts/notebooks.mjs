#!/usr/bin/env node
/** npm run notebooks [-- OPTIONS OF JUPYTER LAB]: opens JupyterLab on notebooks/ with this repository's kernel. */
import { spawn } from 'node:child_process'
import { environment, jupyterLab, root } from './jupyter.mjs'

const options = process.argv.slice(2)
if (options.includes('--help')) {
  console.log('Usage: npm run notebooks [-- --no-browser --port P …]\n\nOpens JupyterLab on notebooks/. Options are passed to jupyter lab.')
} else {
  const { command, args } = jupyterLab()
  const asRoot = process.getuid?.() === 0 ? ['--allow-root'] : []
  const lab = spawn(command, [...args, ...asRoot, ...options, 'notebooks'], { cwd: root, env: environment(), stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => lab.kill(signal))
  lab.on('exit', (code) => process.exit(code ?? 1))
}
