import { createHash } from 'node:crypto'
import { fileSize, readBytes } from '../../util/binaryFile.js'
import type { ModelSource } from './source.js'
import type { TextTokenizer } from './tokenizer.js'

/** Weights up to this size are read whole, in bytes. */
const WHOLE = 2 ** 28
/** Of larger ones: so many pieces of each file, at even distances, each so many bytes. */
const [PIECES, PIECE] = [256, 2 ** 12]

/**
 * What tells a model from another one: a SHA-256 over its configuration, its tokenizer and chat template, its tensors' names, types and shapes, and its weights; of large weights
 * their size and pieces of them, so that it takes well under a second.
 */
export const fingerprint = ({ config, tensors }: Pick<ModelSource, 'config' | 'tensors'>, { files: said, stopTokens }: Pick<TextTokenizer, 'files' | 'stopTokens'>): string => {
  const digest = createHash('sha256')
  const index = [...tensors].map(([name, { tensor: { dtype, shape } }]) => [name, dtype, shape])
  const files = [...new Set([...tensors.values()].map(({ file }) => file))].sort()
  const sizes = files.map(fileSize)
  digest.update(JSON.stringify([config, index, sizes, said, stopTokens]))
  const isSmall = sizes.reduce((sum, size) => sum + size, 0) <= WHOLE
  for (const [i, file] of files.entries()) {
    const step = isSmall ? 2 ** 24 : Math.max(PIECE, Math.floor(sizes[i] / PIECES))
    for (let at = 0; at < sizes[i]; at += step) digest.update(readBytes(file, at, Math.min(isSmall ? step : PIECE, sizes[i] - at), file))
  }
  return digest.digest('hex')
}

/** The same of its tokenizer and chat template alone. */
export const tokenizerFingerprint = ({ files, stopTokens }: Pick<TextTokenizer, 'files' | 'stopTokens'>): string =>
  createHash('sha256').update(JSON.stringify([files, stopTokens])).digest('hex')
