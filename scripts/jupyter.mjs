/** Find Jupyter, or install it into the project's cache, and say what was done. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheRoot, makeFolder } from './native/cache.mjs'

export const root = fileURLToPath(new URL('..', import.meta.url))
const venv = join(cacheRoot(), 'jupyter')
const bin = join(venv, process.platform === 'win32' ? 'Scripts' : 'bin')
const packages = ['jupyterlab==4.6.6', 'nbconvert==7.17.2', 'nbclient==0.11.0']

const works = (command, args) => spawnSync(command, args, { stdio: 'ignore' }).status === 0

/** The cache venv's python with jupyterlab, nbclient and nbconvert: made on first use. Exits with one line when it cannot be made. */
export const jupyterPython = () => {
  const python = join(bin, 'python')
  if (existsSync(python) && works(python, ['-c', 'import jupyterlab, nbclient, nbconvert'])) return python
  console.error(`Jupyter: installing ${packages.join(', ')} into ${venv} (once; remove that folder to undo)`)
  try {
    makeFolder(cacheRoot())
  } catch (error) {
    console.error(`Jupyter: ${cacheRoot()}: cannot be made: ${error.message}; XDG_CACHE_HOME names a folder for caches`)
    process.exit(1)
  }
  const steps = [
    ['python3', ['-m', 'venv', '--clear', venv]],
    [python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]],
  ]
  for (const [command, args] of steps) {
    const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
    if (status !== 0) {
      const reason = (error?.message ?? stderr).trim().split('\n').filter((line) => line && !/https?:/.test(line)).pop() ?? 'failed'
      console.error(`Jupyter: ${command} ${args.slice(0, 3).join(' ')}: ${reason}`)
      console.error('Jupyter: needs python3 with venv and pip (Debian: apt-get install python3-venv), or your own: pip install jupyterlab nbconvert nbclient')
      process.exit(1)
    }
  }
  return python
}

/** A Jupyter that opens notebooks: the user's own if it has JupyterLab, else the cache's. */
export const jupyterLab = () => (works('jupyter', ['lab', '--version']) ? { command: 'jupyter', args: ['lab'] } : { command: jupyterPython(), args: ['-m', 'jupyterlab'] })

const withOwn = (name) => [join(root, '.jupyter'), process.env[name]].filter(Boolean).join(delimiter)

/** The environment in which Jupyter finds this repository's kernel, without any install; and in which JupyterLab does not ask whether to fetch news. */
export const environment = () => ({ ...process.env, JUPYTER_PATH: withOwn('JUPYTER_PATH'), JUPYTER_CONFIG_PATH: withOwn('JUPYTER_CONFIG_PATH') })
