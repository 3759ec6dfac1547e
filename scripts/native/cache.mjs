/**
 * A per-user cache of folders whose content is checked before it is used.
 *
 * A folder holds its files and `manifest.json`, the size and sha256 of each. It is filled under a
 * temporary name and renamed when complete, so a reader sees a whole folder or none, and two
 * processes that fill the same one do no harm: the first to rename wins, the other uses that.
 */
import { createHash } from 'node:crypto'
import {
  closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, renameSync, rmSync, statSync, writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, relative, sep } from 'node:path'

/** `$XDG_CACHE_HOME/teamtr`, else `~/.cache/teamtr`. */
export const cacheRoot = () => join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'teamtr')

/**
 * Make a folder and those above it, where they are missing. (Node's own `recursive` never returns where a parent exists and refuses the folder with
 * ENOENT, as /proc does: v20.)
 *
 * @param {string} folder
 * @throws what mkdir throws
 */
export const makeFolder = (folder) => {
  if (existsSync(folder)) return
  makeFolder(dirname(folder))
  try {
    mkdirSync(folder)
  } catch (error) {
    if (error.code !== 'EEXIST') throw error // another process was quicker
  }
}

/**
 * The folder `name` of the cache, complete and unaltered: as it is, or filled anew.
 *
 * @param {string} root the cache
 * @param {string} name a plain folder name; what it holds is decided by it alone
 * @param {(folder: string) => void} fill writes the files into an empty folder
 * @returns {string} its path
 */
export const ensureFolder = (root, name, fill) => {
  const folder = join(root, name)
  if (fault(folder) === undefined) return folder
  makeFolder(root)
  sweep(root)
  const temporary = join(root, `${name}.${process.pid}.tmp`)
  try {
    rmSync(temporary, { recursive: true, force: true })
    mkdirSync(temporary)
    fill(temporary)
    writeManifest(temporary)
    replace(folder, temporary)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
  return folder
}

/**
 * What is wrong with a folder of the cache: undefined when every file has the size and hash of the manifest.
 *
 * @param {string} folder
 * @returns {string | undefined}
 */
export const fault = (folder) => {
  try {
    const manifest = Object.entries(JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')))
    if (manifest.length === 0) return 'manifest.json names no file'
    for (const [name, { size, sha256 }] of manifest) {
      const file = join(folder, name)
      if (!existsSync(file)) return `${name} is missing`
      if (statSync(file).size !== size) return `${name} has ${statSync(file).size} bytes, not ${size}`
      if (hash(file) !== sha256) return `${name} is altered`
    }
    return undefined
  } catch (error) {
    return `it cannot be checked: ${error.message}`
  }
}

/** sha256 of a file, in hex, read 4 MiB at a time. */
export const hash = (file) => {
  const digest = createHash('sha256')
  const buffer = Buffer.allocUnsafe(4 * 2 ** 20)
  const descriptor = openSync(file, 'r')
  try {
    for (let read; (read = readSync(descriptor, buffer)) > 0; ) digest.update(buffer.subarray(0, read))
  } finally {
    closeSync(descriptor)
  }
  return digest.digest('hex')
}

const writeManifest = (folder) => {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
  const manifest = Object.fromEntries(files.sort().map((name) => {
    const file = join(folder, name)
    return [name.split(sep).join('/'), { size: statSync(file).size, sha256: hash(file) }]
  }))
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest, null, 1))
}

/** Put `complete` in the place of `folder`, whatever is there, unless another process has just put a good one. */
const replace = (folder, complete) => {
  const old = `${complete}.old.tmp`
  try {
    if (existsSync(folder) && fault(folder) !== undefined) renameSync(folder, old)
    renameSync(complete, folder)
  } catch (error) {
    if (fault(folder) !== undefined) throw error
  } finally {
    rmSync(old, { recursive: true, force: true })
  }
}

/** Remove what killed processes left: temporary folders of no living process, an hour old. */
const sweep = (root) => {
  for (const name of readdirSync(root)) {
    const pid = Number(/\.(\d+)(\.old)?\.tmp$/.exec(name)?.[1])
    if (!pid || alive(pid)) continue
    const path = join(root, name)
    const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity
    if (Date.now() - changed > 3_600_000) rmSync(path, { recursive: true, force: true })
  }
}

const alive = (pid) => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
