import { beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { tokenBatch } from '../../src/train/model/batch.js'
import { markedLogProbs } from '../../src/train/model/functions.js'
import { acting, objective, tokenDivergence, type ObjectiveOptions, type Weights } from '../../src/train/objective.js'
import type { Policy, TokenBatch } from '../../src/train/policy.js'
import { random } from '../../src/util/random.js'

/**
 * A policy small enough to enumerate: the next token depends on the last one alone, θ is the 3 × 3 table of logits. A message follows the
 * prompt [0], ends with token 2 or after two tokens: seven messages. Everything below is checked against float64 sums over all of them.
 */
const V = 3
const END = 2
const messages = [[END], [0, 0], [0, 1], [0, END], [1, 0], [1, 1], [1, END]]
const policy: Policy = {
  layout: [{ name: 'table', shape: [V, V], offset: 0, initial: { mean: 0, deviation: 1 } }],
  vocabulary: V,
  logDistributions: (theta, { ids, places }, { temperature = 1 } = {}) => tf.tidy(() => {
    const last = tf.gather(tf.reshape(ids, [-1]), places)
    return tf.logSoftmax(tf.div<tf.Tensor2D>(tf.matMul<tf.Tensor2D>(tf.oneHot(last, V).toFloat(), tf.reshape(theta, [V, V])), temperature))
  }),
  logProbs: (theta, batch, pass) => tf.tidy(() => markedLogProbs(policy.logDistributions(theta, batch, pass), batch.picks)),
  sample: () => { throw new Error('not needed') },
}

const logRow = (theta: readonly number[], last: number, temperature = 1): number[] => {
  const row = theta.slice(last * V, (last + 1) * V).map((x) => x / temperature)
  const logSum = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0))
  return row.map((x) => x - logSum)
}
/** log π of each token of a message. */
const logs = (theta: readonly number[], message: readonly number[], temperature = 1): number[] =>
  message.map((token, u) => logRow(theta, u === 0 ? 0 : message[u - 1], temperature)[token])
const probability = (theta: readonly number[], message: readonly number[]): number => Math.exp(logs(theta, message).reduce((a, b) => a + b))

const current = [0.3, -0.2, 0.5, 1.0, 0.1, -0.7, 0, 0, 0]
const updated = [0.6, -0.5, 0.2, 0.4, 0.6, -0.3, 0, 0, 0]
const rewards = [0.2, 0.9, 0, 0.5, 1, 0.1, 0.4]
const exact = messages.map((message) => probability(current, message))
const value = (theta: readonly number[]): number => messages.reduce((sum, message, m) => sum + probability(theta, message) * rewards[m], 0)
const advantages = rewards.map((reward) => reward - value(current))

const gradient = (f: (theta: number[]) => number, theta: readonly number[]): number[] =>
  theta.map((_, i) => {
    const at = (h: number): number => f(theta.map((x, k) => (k === i ? x + h : x)))
    return (at(1e-5) - at(-1e-5)) / 2e-5
  })

/** The objective in float64, straight from its definition, each message weighted by its probability. */
const reference = (theta: readonly number[], beta: number, { clip, ratio, estimator }: ObjectiveOptions): number =>
  messages.reduce((sum, message, m) => {
    const [p, q] = [logs(current, message), logs(theta, message)]
    const tokenRatios = q.map((x, u) => Math.exp(x - p[u]))
    const ratios = ratio === 'message' ? [tokenRatios.reduce((a, b) => a * b)] : tokenRatios
    const a = advantages[m]
    const surrogate = ratios.reduce((all, w) => all + Math.min(w * a, Math.min(1 + clip.high, Math.max(1 - clip.low, w)) * a), 0)
    const divergence = message.reduce((all, _, u) => {
      const [before, after] = [current, theta].map((table) => logRow(table, u === 0 ? 0 : message[u - 1]))
      if (estimator === 'exact') return all + before.reduce((kl, x, v) => kl + Math.exp(x) * (x - after[v]), 0)
      return all + (estimator === 'plain' ? p[u] - q[u] : Math.exp(q[u] - p[u]) - 1 - (q[u] - p[u]))
    }, 0)
    return sum + exact[m] * (surrogate - beta * divergence)
  }, 0)

let batch: { tokens: TokenBatch; messageOf: tf.Tensor1D }
let weights: Weights

beforeAll(async () => {
  await initEngine()
  batch = {
    tokens: tokenBatch(messages.map((message) => ({ ids: [0, ...message], marked: [[1, message.length + 1]] }))),
    messageOf: tf.tensor1d(messages.flatMap((message, m) => message.map(() => m)), 'int32'),
  }
  weights = {
    positive: tf.tensor1d(advantages.map((a, m) => exact[m] * Math.max(0, a))),
    negative: tf.tensor1d(advantages.map((a, m) => exact[m] * Math.max(0, -a))),
    divergence: tf.tensor1d(exact),
  }
})

const computed = (theta: readonly number[], beta: number, options: ObjectiveOptions): { value: number; gradient: number[] } =>
  tf.tidy(() => {
    const behaviour = acting(policy, tf.tensor1d(current), batch.tokens, 1, true)
    const { value, grad } = tf.valueAndGrad((x) =>
      objective(behaviour, acting(policy, x as tf.Tensor1D, batch.tokens, 1, true), batch, weights, beta, options))(tf.tensor1d([...theta]))
    return { value: value.dataSync()[0], gradient: [...grad.dataSync()] }
  })

const even = { low: 0.2, high: 0.2 }

const closeTo = (actual: readonly number[], expected: readonly number[]): void =>
  actual.forEach((x, i) => expect(x).toBeCloseTo(expected[i], 5))

describe('objective', () => {
  it.each(['message', 'token'] as const)('has the gradient of J at θ_cur, with a %s ratio', (ratio) => {
    const { gradient: actual } = computed(current, 3, { clip: even, ratio, average: 'sum', estimator: 'exact' })
    closeTo(actual, gradient(value, current))
  })

  const cases = (['message', 'token'] as const).flatMap((ratio) =>
    (['exact', 'lowVariance', 'plain'] as const).flatMap((estimator) => [0, 0.7].map((beta) => ({ ratio, estimator, beta }))))
  it.each(cases)('is its definition, in value and gradient, away from θ_cur: %o', ({ beta, ...rest }) => {
    const options = { clip: { low: 0.15, high: 0.1 }, average: 'sum' as const, ...rest }
    const { value, gradient: actual } = computed(updated, beta, options)
    expect(value).toBeCloseTo(reference(updated, beta, options), 5)
    closeTo(actual, gradient((theta) => reference(theta, beta, options), updated))
  })

  it('stays finite where a ratio would overflow', () => {
    const far = [-200, 200, 0, 200, 0, -200, 0, 0, 0]
    for (const beta of [0, 1]) {
      const { value, gradient: actual } = computed(far, beta, { clip: even, ratio: 'message', average: 'sum', estimator: 'exact' })
      for (const x of [value, ...actual]) expect(Number.isFinite(x)).toBe(true)
    }
  })
})

describe('tokenDivergence', () => {
  // Lemma 3.2: in expectation over messages all three are KL(π_cur‖π_new) of whole messages.
  const kl = messages.reduce((sum, message, m) => sum + exact[m] * Math.log(exact[m] / probability(updated, message)), 0)
  it.each(['exact', 'lowVariance', 'plain'] as const)('%s has the message KL as its mean', (estimator) => {
    const mean = tf.tidy(() => {
      const [behaviour, after] = [current, updated].map((theta) => acting(policy, tf.tensor1d(theta), batch.tokens, 1, true))
      return tf.sum(tf.mul(tf.gather(weights.divergence, batch.messageOf), tokenDivergence(estimator, behaviour, after))).dataSync()[0]
    })
    expect(mean).toBeCloseTo(kl, 6)
  })

  /** KL per row of two tables of logits, by tokenDivergence and from the same logits in float64. */
  const exactly = (rows: readonly (readonly [before: number[], after: number[]])[]): { actual: number[]; expected: number[] } => ({
    actual: tf.tidy(() => {
      const [behaviour, after] = [0, 1].map((which) => {
        const distributions = tf.logSoftmax(tf.tensor2d(rows.map((row) => row[which])))
        return { distributions, logProbs: tf.zeros<tf.Rank.R1>([rows.length]) }
      })
      return [...tokenDivergence('exact', behaviour, after).dataSync()]
    }),
    expected: rows.map(([before, after]) => {
      const [p, q] = [before, after].map((logits) => {
        const logs = logits.map(Math.fround)
        const logSum = Math.log(logs.reduce((sum, x) => sum + Math.exp(x), 0))
        return logs.map((x) => x - logSum)
      })
      return p.reduce((sum, x, v) => sum + Math.exp(x) * (Math.expm1(q[v] - x) - (q[v] - x)), 0)
    }),
  })

  it.each([1e-7, 1e-5, 1e-3, 0.1, 3])('exact is never negative, and keeps its digits where logits differ by %d', (difference) => {
    const r = random(7)
    const rows = Array.from({ length: 50 }, () => {
      const before = Array.from({ length: 40 }, () => 6 * r.next() - 3)
      return [before, before.map((x) => x + difference * (2 * r.next() - 1))] as const
    })
    const { actual, expected } = exactly(rows)
    // Logits of size 3 lie 2.4e-7 apart in float32, and their softmax is rounded as coarsely: that much of a difference is not seen.
    const rounding = 3 * 2.4e-7
    actual.forEach((x, i) => {
      expect(x).toBeGreaterThanOrEqual(0)
      expect(Math.abs(Math.sqrt(x) - Math.sqrt(expected[i]))).toBeLessThan(rounding + 1e-6 * Math.sqrt(expected[i]))
    })
  })

  it('exact is zero for equal policies, and finite where a ratio overflows', () => {
    expect(exactly([[[1, -2, 0.3], [1, -2, 0.3]]]).actual).toEqual([0])
    const { actual: [far] } = exactly([[[0, -300, -100], [-300, 0, -100]]])
    expect(far).toBeCloseTo(300, 3)
  })
})

describe('acting', () => {
  it('is softmax(logits/τ), with and without whole distributions', () => {
    for (const temperature of [1, 0.5, 2]) {
      for (const whole of [true, false]) {
        const { logProbs, distributions } = tf.tidy(() => acting(policy, tf.tensor1d(current), batch.tokens, temperature, whole))
        closeTo([...logProbs.dataSync()], messages.flatMap((message) => logs(current, message, temperature)))
        if (whole) expect(distributions!.shape).toEqual([logProbs.size, V])
      }
    }
  })
})

it('leaves no tensor behind', () => {
  const before = tf.memory().numTensors
  const r = random(1)
  for (let k = 0; k < 3; k++) computed(current.map((x) => x + r.normal()), 1, { clip: even, ratio: 'message', average: 'sum', estimator: 'lowVariance' })
  expect(tf.memory().numTensors).toBe(before)
})
