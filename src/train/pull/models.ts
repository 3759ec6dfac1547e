/** The models in the per-user cache: each a folder (or a link to one) that appears when it is complete and checked. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { InputError } from '../../util/errors.js'
import { makeFolder, writableFolder } from '../../util/files.js'
import { modelsFolder, openModel } from '../model/source.js'

export interface PulledModel {
  /** What --model takes. */
  readonly name: string
  readonly path: string
  /** Whether it was there before. */
  readonly present: boolean
}

/** The name a model goes by in the cache. @throws InputError */
export const checkedName = (name: string): string => {
  if (!/^[A-Za-z0-9][\w.-]{0,100}$/.test(name)) {
    throw new InputError(`--name: holds ${JSON.stringify(name)}; expected letters, digits, ".", "_" and "-"`)
  }
  return name
}

/**
 * Fill a folder of the cache under a temporary name, open what is in it as a model, and only then give it its name.
 *
 * @param fill writes the model's files into an empty folder
 * @throws InputError when the cache cannot be written, or what was filled in is no model that can be loaded; what fill throws
 */
export const install = async (name: string, fill: (folder: string) => void | Promise<void>): Promise<string> => {
  const target = join(modelsFolder(), checkedName(name))
  writableFolder(modelsFolder())
  const temporary = `${target}.${process.pid}.tmp`
  const old = `${target}.${process.pid}.old.tmp`
  try {
    rmSync(temporary, { recursive: true, force: true })
    makeFolder(temporary)
    await fill(temporary)
    openModel(temporary).tokenizer()
    if (existsSync(target)) renameSync(target, old)
    renameSync(temporary, target)
  } finally {
    for (const left of [temporary, old]) rmSync(left, { recursive: true, force: true })
  }
  return target
}

/** In hex. */
export const sha256 = async (file: string): Promise<string> => {
  const digest = createHash('sha256')
  for await (const chunk of createReadStream(file, { highWaterMark: 2 ** 20 })) digest.update(chunk as Buffer)
  return digest.digest('hex')
}
