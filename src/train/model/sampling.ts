/** One token from a row of logits, on the host in float64: temperature, then top-k, then top-p, as `transformers` and vLLM order them. */
import type { Random } from '../../util/random.js'

export interface Sampling {
  /** > 0; 0 takes the (first) most probable token. */
  readonly temperature: number
  /** Only the k most probable tokens. */
  readonly topK?: number
  /** Only the most probable tokens that together have at least this probability, in (0, 1], after temperature and top-k. */
  readonly topP?: number
}

export interface Drawn {
  readonly token: number
  /** log of its probability under the model: no temperature, nothing left out. */
  readonly logProb: number
  /** log of the probability it was drawn with. */
  readonly samplingLogProb: number
}

/**
 * By the inverse of the cumulative distribution: one random number a token. Of equally probable tokens, those of lower id count as more
 * probable.
 *
 * @param scores a row of logits
 * @param weights scratch space, as long as the row
 */
export const draw = (scores: Float32Array, { temperature, topK, topP }: Sampling, random: Random, weights: Float64Array): Drawn => {
  let best = 0
  for (let v = 1; v < scores.length; v++) if (scores[v] > scores[best]) best = v
  const top = scores[best]
  /** Fills `weights` with exp((score − top) · scale). @returns their sum */
  const exponentiate = (scale: number): number => {
    let sum = 0
    for (let v = 0; v < scores.length; v++) sum += weights[v] = Math.exp((scores[v] - top) * scale)
    return sum
  }
  if (temperature === 0) return { token: best, logProb: -Math.log(exponentiate(1)), samplingLogProb: 0 }
  const all = exponentiate(1 / temperature)
  const kept = keep(scores, weights, all, topK, topP)
  const total = kept ? kept.reduce((sum, v) => sum + weights[v], 0) : all
  // Rounding may leave nothing of u · total behind the last token: then the most probable one.
  let left = random.next() * total
  const token = (kept ? kept.find((v) => (left -= weights[v]) < 0) : index(weights.findIndex((weight) => (left -= weight) < 0))) ?? best
  const tempered = (scores[token] - top) / temperature
  // Last, since it overwrites the weights.
  const logProb = temperature === 1 ? tempered - Math.log(all) : scores[token] - top - Math.log(exponentiate(1))
  return { token, logProb, samplingLogProb: tempered - Math.log(total) }
}

/**
 * log of the probability that a token is drawn with; one that top-k or top-p would leave out (another engine may round otherwise) counts as the last that
 * they leave.
 *
 * @param scores a row of logits, or of log-probabilities; temperature > 0
 */
export const logProbabilityDrawn = (scores: Float32Array, token: number, { temperature, topK, topP }: Sampling): number => {
  const top = scores.reduce((most, score) => Math.max(most, score), -Infinity)
  const weights = Float64Array.from(scores, (score) => Math.exp((score - top) / temperature))
  const all = weights.reduce((sum, weight) => sum + weight, 0)
  const kept = keep(scores, weights, all, topK, topP)
  const total = kept ? kept.reduce((sum, v) => sum + weights[v], kept.includes(token) ? 0 : weights[token]) : all
  return (scores[token] - top) / temperature - Math.log(total)
}

const index = (found: number): number | undefined => (found < 0 ? undefined : found)

/**
 * The tokens that top-k and top-p leave, most probable first; undefined: all, in the order of their ids.
 *
 * @param total the sum of `weights`
 */
const keep = (scores: Float32Array, weights: Float64Array, total: number, topK = Infinity, topP = 1): Uint32Array | undefined => {
  if (topK >= scores.length && topP >= 1) return undefined
  // Tokens of less than (1 − p)/V each have less than 1 − p together: the ones that top-p keeps are among the others.
  const least = topK < scores.length ? threshold(scores, topK) : undefined
  const rare = ((1 - topP) * total) / scores.length
  const candidates: number[] = []
  for (let v = 0; v < scores.length; v++) if (least === undefined ? weights[v] >= rare : scores[v] >= least) candidates.push(v)
  const ordered = Uint32Array.from(candidates.sort((a, b) => scores[b] - scores[a] || a - b)).subarray(0, topK)
  if (topP >= 1) return ordered
  const enough = topP * (least === undefined ? total : ordered.reduce((sum, v) => sum + weights[v], 0))
  let sum = 0
  const last = ordered.findIndex((v) => (sum += weights[v]) >= enough)
  return last < 0 ? ordered : ordered.subarray(0, last + 1)
}

/** The k-th largest score (quickselect; the pivot is the middle one of three). */
const threshold = (scores: Float32Array, k: number): number => {
  const s = Float32Array.from(scores)
  let [low, high] = [0, s.length - 1]
  while (low < high) {
    const [a, b, c] = [s[low], s[(low + high) >> 1], s[high]]
    const pivot = Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
    let [i, j] = [low, high]
    while (i <= j) {
      while (s[i] > pivot) i++
      while (s[j] < pivot) j--
      if (i <= j) {
        ;[s[i], s[j]] = [s[j], s[i]]
        i++
        j--
      }
    }
    if (k - 1 <= j) high = j
    else if (k - 1 >= i) low = i
    else break
  }
  return s[k - 1]
}
