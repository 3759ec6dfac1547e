import { tf } from '../backend.js'

/**
 * Adam's memory, over the one flat θ. The moments are kept unnormalised, M = m/(1−β₁) and V = v/(1−β₂), so that
 * M' = β₁M + g and V' = β₂V + g²: two operations fewer per step. Plain data: a checkpoint stores it as it is.
 */
export type AdamState = {
  /** Steps taken. */
  steps: number
  /** Σ β₁^(t−s) g_s. */
  first: tf.Tensor1D
  /** Σ β₂^(t−s) g_s². */
  second: tf.Tensor1D
}

export interface AdamOptions {
  readonly learningRate: number
  /** Default 0.9. */
  readonly beta1?: number
  /** Default 0.999. */
  readonly beta2?: number
  /** Default 1e-8. */
  readonly epsilon?: number
  /** The gradient is scaled down to at most this L2 norm; default: as it is. */
  readonly clipNorm?: number
}

/** The state before the first step. @param size length of θ */
export const adamStart = (size: number): AdamState => ({ steps: 0, first: tf.zeros([size]), second: tf.zeros([size]) })

/** What a step multiplies by and adds, which depends on its number; numbers, or scalars where they are inputs of a compiled step. */
export type AdamRates = { rate: number | tf.Tensor; floor: number | tf.Tensor }

/** Of step t, 1 for the first: m̂ = a M and v̂ = b² V, so η m̂ / (√v̂ + ε) is (η a / b) M / (√V + ε/b). */
export const adamRates = (t: number, { learningRate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8 }: AdamOptions): { rate: number; floor: number } => {
  const a = (1 - beta1) / (1 - beta1 ** t)
  const b = Math.sqrt((1 - beta2) / (1 - beta2 ** t))
  return { rate: (learningRate * a) / b, floor: epsilon / b }
}

/**
 * One Adam step (Kingma and Ba, algorithm 1): θ' = θ − η m̂ / (√v̂ + ε), as a new θ and a new state. Disposes neither the old ones nor the gradient.
 */
export const adamStep = (
  theta: tf.Tensor1D, gradient: tf.Tensor1D, state: AdamState, options: AdamOptions, rates: AdamRates = adamRates(state.steps + 1, options),
): { theta: tf.Tensor1D; state: AdamState } =>
  tf.tidy(() => {
    const { beta1 = 0.9, beta2 = 0.999, clipNorm } = options
    const g = clipNorm === undefined ? gradient : tf.mul(gradient, clipFactor(gradient, clipNorm))
    const first: tf.Tensor1D = tf.add(tf.mul(state.first, beta1), g)
    const second: tf.Tensor1D = tf.add(tf.mul(state.second, beta2), tf.square(g))
    const step = tf.mul(tf.div(first, tf.add(tf.sqrt(second), rates.floor)), rates.rate)
    return { theta: tf.sub(theta, step) as tf.Tensor1D, state: { steps: state.steps + 1, first, second } }
  })

/** min(1, limit / ‖g‖). */
const clipFactor = (gradient: tf.Tensor1D, limit: number): tf.Tensor =>
  tf.minimum(1, tf.div(limit, tf.add(tf.sqrt(tf.sum(tf.square(gradient))), 1e-12)))
