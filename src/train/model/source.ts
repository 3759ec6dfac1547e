/** A pretrained model on disk, whichever its format: a Hugging Face folder, or a GGUF file. */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { tf } from '../backend.js'
import { fileSize, readBytes } from '../../util/binaryFile.js'
import { cacheFolder } from '../../util/cache.js'
import { InputError } from '../../util/errors.js'
import { readJson } from '../../util/files.js'
import { show } from '../../util/validate.js'
import type { DecoderConfig } from './config.js'
import type { Weights } from './decoder.js'
import { openGguf } from './ggufFile.js'
import { ggufConfig, ggufTensors } from './ggufModel.js'
import { ggufTokenizer } from './ggufTokenizer.js'
import { hubConfig, readStopTokens } from './hubConfig.js'
import { storedTensors, weightsOf, type Located } from './hub.js'
import type { NamedArray } from './safetensors.js'
import { readTokenizer, textTokenizer, type TextTokenizer } from './tokenizer.js'

/** What a model on disk is, before its weights are read. */
export interface ModelSource {
  /** The folder, or the GGUF file. */
  readonly path: string
  readonly format: 'folder' | 'gguf'
  readonly config: DecoderConfig
  /** Its tensors by their hub names, with where they lie. */
  readonly tensors: ReadonlyMap<string, Located>
  /** The tokens that end a message; none where only the tokenizer knows. */
  readonly stopTokens: readonly number[]
  readonly tokenizer: () => TextTokenizer
}

/**
 * Open a model and check everything but the weights' values.
 *
 * @param model a folder with config.json, a .gguf file, a folder with one .gguf file, or the name of a pulled model
 * @throws InputError naming file, field or tensor
 */
export const openModel = (model: string): ModelSource => {
  const path = modelPath(model)
  return statSync(path).isDirectory() ? folderSource(path) : ggufSource(path)
}

const folderSource = (folder: string): ModelSource => {
  const file = join(folder, 'config.json')
  const config = hubConfig(readJson(file), file)
  const stopTokens = readStopTokens(folder)
  return {
    path: folder, format: 'folder', config, tensors: storedTensors(folder), stopTokens,
    tokenizer: () => fitting(readTokenizer(folder, stopTokens), config, folder),
  }
}

const ggufSource = (file: string): ModelSource => {
  const gguf = openGguf(file)
  const config = ggufConfig(gguf, file)
  const { files, stopTokens } = ggufTokenizer(gguf, file)
  return {
    path: file, format: 'gguf', config, tensors: ggufTensors(gguf, config, file), stopTokens,
    tokenizer: () => fitting(textTokenizer(files, stopTokens, file), config, file),
  }
}

/** Every token must have a row of the embedding; more rows than tokens is usual. */
const fitting = (tokenizer: TextTokenizer, { vocabulary }: DecoderConfig, where: string): TextTokenizer => {
  const most = Math.max(tokenizer.vocabulary, ...tokenizer.stopTokens.map((id) => id + 1))
  if (most > vocabulary) {
    throw new InputError(`${where}: the tokenizer has the token id ${most - 1}; the model's embedding has ${vocabulary} rows`)
  }
  return tokenizer
}

/**
 * The weights, slot by slot: one is in memory at a time.
 *
 * @throws InputError naming the tensor that is missing, superfluous, shaped otherwise or cut
 */
export const weightArrays = ({ config, tensors }: ModelSource): Generator<NamedArray> => weightsOf(config, tensors)

/** The weights as the decoder's tensors. @returns tensors that the caller disposes */
export const loadWeights = (source: ModelSource): Weights => {
  const weights: Weights = {}
  try {
    for (const { name, shape, data } of weightArrays(source)) {
      const tensor = (weights[name] = tf.tensor(data, shape as number[]))
      // A native engine copies values when they are first used. Used here, they exist once, and not all of them twice for a while.
      tf.tidy(() => void tf.reshape(tensor, [-1]))
    }
    return weights
  } catch (error) {
    tf.dispose(weights)
    throw error
  }
}

/** Where pulled models lie. */
export const modelsFolder = (): string => join(cacheFolder(), 'models')

/** @throws InputError when it is neither on disk nor in the cache */
const modelPath = (model: string): string => {
  const places = [model, ...(/^[\w.-]+$/.test(model) ? [join(modelsFolder(), model)] : [])]
  for (const place of places.filter((place) => existsSync(place))) {
    if (!statSync(place).isDirectory()) {
      if (!isGguf(place)) {
        throw new InputError(`model: ${show(place)} is a file of another format; a folder with config.json, or a GGUF file, is needed`)
      }
      return place
    }
    if (existsSync(join(place, 'config.json'))) return place
    const files = readdirSync(place).filter((name) => name.endsWith('.gguf'))
    if (files.length === 1) return join(place, files[0])
    throw new InputError(`model: ${show(place)} holds no config.json and ${files.length} .gguf files; one of both is needed`)
  }
  const pulled = pulledModels().join(', ') || 'none is pulled'
  throw new InputError(`model: holds ${show(model)}; no such folder or file, and no pulled model of that name (${pulled}; see teamtr pull)`)
}

const isGguf = (file: string): boolean => fileSize(file) >= 4 && readBytes(file, 0, 4, file).toString('latin1') === 'GGUF'

/** Names of the models in the cache. */
export const pulledModels = (): string[] =>
  (existsSync(modelsFolder()) ? readdirSync(modelsFolder()) : []).filter((name) => !name.endsWith('.tmp')).sort()
