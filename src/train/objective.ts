/**
 * What an update climbs (theory.md, section 4):
 *
 *     E_m min(w_m Ã_m, clip(w_m, 1 − ε, 1 + ε) Ã_m) − β D̂,      w_m = π_θ(m|s) / π_cur(m|s),
 *
 * the mean over the agent's messages m. The first term is linear in the advantages of a message that occurs more than once:
 * Σ min(wÃ, clip(w)Ã) = Ã⁺ min(w, 1 + ε) − Ã⁻ max(w, 1 − ε), with Ã⁺ and Ã⁻ the sums of its positive and negative parts. And D̂ is
 * linear in the divergences of tokens. So the occurrences come down to three weights per distinct message.
 *
 * With `ratio: 'token'` every token has its own w_u, and a message contributes the sum over its tokens. At θ = θ_cur both have the same
 * gradient, that of the surrogate L^seq; they differ in second order, and in what is clipped. GRPO takes the mean over a message's tokens in place of
 * the sum, DAPO the mean over all tokens: `average`.
 */
import { tf } from './backend.js'
import { markedLogProbs } from './model/functions.js'
import { inOrder, type AgentMessages, type MessageBatch, type MicroBatch } from './messages.js'
import type { Policy, TokenBatch } from './policy.js'

/** log-probabilities of the policy that acts, at temperature τ: softmax(logits/τ). */
export type Acting = {
  /** [M] of the marked tokens. */
  readonly logProbs: tf.Tensor1D
  /** [M, V]; absent where nothing needs it. */
  readonly distributions?: tf.Tensor2D
}

/**
 * @param whole whether the distributions over the whole vocabulary are wanted too
 * @param dropoutSeed of the masks of dropout, where the policy has it; absent: without dropout
 */
export const acting = (policy: Policy, theta: tf.Tensor1D, batch: TokenBatch, temperature: number, whole: boolean, dropoutSeed?: number): Acting => {
  const pass = { temperature, dropoutSeed }
  if (!whole) return { logProbs: policy.logProbs(theta, batch, pass) }
  const distributions = policy.logDistributions(theta, batch, pass)
  return { logProbs: markedLogProbs(distributions, batch.picks), distributions }
}

/** log-probabilities of the policy that acts, of an agent's messages in the order of `AgentMessages.spans`: batch by batch, so only one is held. */
export const actingLogProbs = async (
  policy: Policy, theta: tf.Tensor1D, messages: AgentMessages, batches: readonly MicroBatch[], temperature: number,
): Promise<Float32Array> => {
  const values: ArrayLike<number>[] = []
  for (const { batch } of batches) {
    const { logProbs } = tf.tidy(() => acting(policy, theta, batch.tokens, temperature, false))
    values.push(await logProbs.data())
    logProbs.dispose()
  }
  return inOrder(messages, batches, values)
}

/**
 * How a token's divergence is estimated. `exact` is KL(π_cur(·|x_<u)‖π_θ(·|x_<u)), which is the expectation of both others over the token
 * (Lemma 3.2), so it has their mean and less noise.
 */
export type Estimator = 'exact' | 'lowVariance' | 'plain'

/** Divergence of each marked token, [M], differentiable in what made `updated`. */
export const tokenDivergence = (estimator: Estimator, behaviour: Acting, updated: Acting): tf.Tensor1D => {
  if (estimator === 'exact') return exactDivergence(behaviour.distributions!, updated.distributions!)
  const logRatio: tf.Tensor1D = tf.sub(updated.logProbs, behaviour.logProbs)
  return estimator === 'plain' ? tf.neg(logRatio) : tf.sub(tf.sub(tf.exp(logRatio), 1), logRatio)
}

/** e^80 is finite in float32. Where q/p is larger the term below is q − p(1 + log q/p), which is q in float32 whatever p is. */
const LARGEST_LOG_RATIO = 80

/**
 * KL(p‖q) of each row, from log p and log q, [M, V] each, as Σ p (q/p − 1 − log q/p): the same sum as Σ p log p/q, since p and q each sum
 * to 1, but of terms that are none of them negative. So it keeps its digits where p and q nearly agree; float32 would turn Σ p log p/q into
 * noise of either sign there. Its derivative in log q is q − p.
 */
const exactDivergence = (before: tf.Tensor2D, after: tf.Tensor2D): tf.Tensor1D =>
  tf.customGrad((logQ, save) => {
    const logP = tf.maximum(before, tf.sub(logQ as tf.Tensor, LARGEST_LOG_RATIO))
    const logRatio = tf.sub(logQ as tf.Tensor, logP)
    const [p, excess] = [tf.exp(logP), tf.expm1(logRatio)]
    ;(save as tf.GradSaveFunc)([tf.mul(p, excess)])
    return {
      value: tf.sum(tf.mul(p, tf.sub(excess, logRatio)), 1),
      gradFunc: (dy: tf.Tensor, [difference]: tf.Tensor[]) => tf.mul(tf.expandDims(dy, 1), difference),
    }
  })(after) as tf.Tensor1D

/**
 * The same towards a fixed reference, KL(π_θ‖π_ref), differentiable in what made `updated`. The sampled estimators take the tokens as drawn from π_θ, which
 * they are at θ_cur. As what is minimised over tokens of π_cur, `lowVariance`, r − 1 − log r with r = π_ref/π_θ (Schulman's k3), is what GRPO has: its
 * gradient at θ_cur, E_cur (1 − r) ∇log π_θ, is that of KL(π_ref‖π_θ). That of `plain`, E_cur ∇log π_θ, has no π_ref in it: config.ts refuses it.
 */
export const referenceDivergence = (estimator: Estimator, updated: Acting, reference: Acting): tf.Tensor1D => {
  if (estimator !== 'exact') return tokenDivergence(estimator, updated, reference)
  const [logP, logQ] = [updated.distributions!, reference.distributions!]
  return tf.sum(tf.mul(tf.exp(logP), tf.sub(logP, logQ)), 1)
}

/** Weights of the n distinct messages, [n] each, already divided by the number of messages. */
export type Weights = {
  /** Ã⁺. */
  readonly positive: tf.Tensor1D
  /** Ã⁻ ≥ 0. */
  readonly negative: tf.Tensor1D
  /** Of a message's divergence in D̂. */
  readonly divergence: tf.Tensor1D
}

export interface ObjectiveOptions {
  /** ε below 1 and above: the ratio is clipped to [1 − low, 1 + high]. */
  readonly clip: { readonly low: number; readonly high: number }
  readonly ratio: 'message' | 'token'
  /** What a message of token ratios contributes: the sum over its tokens, their mean, or the sum over the mean length of all messages. */
  readonly average: 'sum' | 'message' | 'token'
  readonly estimator: Estimator
}

/** Of each distinct message: what its tokens' terms are multiplied by, as `average` says; 1 for a message's own ratio. */
export const tokenWeights = ({ occurrences, spans }: AgentMessages, { ratio, average }: Pick<ObjectiveOptions, 'ratio' | 'average'>): number[] => {
  const lengths = spans.map(([from, to]) => to - from)
  if (ratio === 'message' || average === 'sum') return lengths.map(() => 1)
  if (average === 'message') return lengths.map((length) => 1 / length)
  const tokens = occurrences.reduce((sum, { distinct }) => sum + lengths[distinct], 0)
  return lengths.map(() => occurrences.length / tokens)
}

/** Beyond e^±30 a ratio is only kept finite. */
const LOG_LIMIT = 30

/**
 * The objective, a scalar to maximise, differentiable in what made `updated`.
 *
 * @param reference what the divergence is to, where that is not the behaviour
 */
export const objective = (
  behaviour: Acting, updated: Acting, batch: MessageBatch, weights: Weights, beta: number, { clip, ratio, estimator }: ObjectiveOptions,
  reference?: Acting,
): tf.Scalar => {
  const perToken = (x: tf.Tensor1D): tf.Tensor1D => tf.gather(x, batch.messageOf)
  const logRatio: tf.Tensor1D = tf.sub(updated.logProbs, behaviour.logProbs)
  const byMessage = ratio === 'message'
  const logW = byMessage ? sumByMessage(logRatio, batch.messageOf, weights.positive.size) : logRatio
  const w = tf.exp(tf.clipByValue(logW, -LOG_LIMIT, LOG_LIMIT))
  const [positive, negative] = byMessage ? [weights.positive, weights.negative] : [perToken(weights.positive), perToken(weights.negative)]
  const surrogate = tf.sum(tf.sub(tf.mul(positive, tf.minimum(w, 1 + clip.high)), tf.mul(negative, tf.maximum(w, 1 - clip.low))))
  if (beta === 0) return surrogate as tf.Scalar
  const divergence = reference ? referenceDivergence(estimator, updated, reference) : tokenDivergence(estimator, behaviour, updated)
  return tf.sub(surrogate, tf.mul(tf.sum(tf.mul(perToken(weights.divergence), divergence)), beta))
}

/** Sums over the tokens of each message, [M] → [n]; the derivative hands each token its message's. */
const sumByMessage = (x: tf.Tensor1D, messageOf: tf.Tensor1D, n: number): tf.Tensor1D =>
  tf.customGrad((x) => ({
    value: tf.unsortedSegmentSum(x as tf.Tensor, messageOf, n),
    gradFunc: (dy: tf.Tensor) => tf.gather(dy, messageOf),
  }))(x) as tf.Tensor1D
