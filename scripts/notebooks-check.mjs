#!/usr/bin/env node
/** npm run notebooks:check [-- NAME … | --update]: runs every notebook through the real kernel and compares it with what is committed. */
import { spawnSync } from 'node:child_process'
import { environment, jupyterPython, root } from './jupyter.mjs'

const { status } = spawnSync(jupyterPython(), ['scripts/check_notebooks.py', ...process.argv.slice(2)], { cwd: root, env: environment(), stdio: 'inherit' })
process.exit(status ?? 1)
