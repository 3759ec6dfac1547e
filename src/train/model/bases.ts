/** Pretrained models that several agents may stand on: each is opened once, and its weights are in memory once. */
import { realpathSync } from 'node:fs'
import { tf } from '../backend.js'
import type { Weights } from './decoder.js'
import { loadWeights, openModel, type ModelSource } from './source.js'
import type { TextTokenizer } from './tokenizer.js'

export interface Base {
  readonly source: ModelSource
  readonly tokenizer: TextTokenizer
  /** Loaded at the first call. They belong to the `Bases`. @throws InputError naming the tensor that cannot be read */
  weights(): Weights
}

export interface Bases {
  /** The same one for every name of the same folder or file. @throws InputError as `openModel` */
  open(model: string): Base
  /** Frees all weights. */
  dispose(): void
}

export const openBases = (): Bases => {
  const bases = new Map<string, Base>()
  const loaded: Weights[] = []
  const opened = (source: ModelSource): Base => {
    let weights: Weights | undefined
    return {
      source,
      tokenizer: source.tokenizer(),
      weights: () => {
        if (!weights) loaded.push(weights = loadWeights(source))
        return weights
      },
    }
  }
  return {
    open: (model) => {
      const source = openModel(model)
      const real = realpathSync(source.path)
      if (!bases.has(real)) bases.set(real, opened(source))
      return bases.get(real)!
    },
    dispose: () => tf.dispose(loaded.splice(0)),
  }
}
