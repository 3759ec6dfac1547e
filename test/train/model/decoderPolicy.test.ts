import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { tokenBatch } from '../../../src/train/model/batch.js'
import { adapterPolicy, decoderPolicy, frozenPolicy } from '../../../src/train/model/decoderPolicy.js'
import { markedLogProbs } from '../../../src/train/model/functions.js'
import { initialTheta, layoutSize, named } from '../../../src/train/model/layout.js'
import { projections } from '../../../src/train/model/projections.js'
import type { Policy, SampledMessage, SampleOptions } from '../../../src/train/policy.js'
import { random } from '../../../src/util/random.js'
import { awake, decoder, engines, fastest, kinds, tokens } from './models.js'

const prompts = [tokens(4, 11), tokens(1, 11), tokens(9, 11), tokens(4, 11), tokens(2, 11)]
const options = (changes: Partial<SampleOptions> = {}): SampleOptions => ({ maxTokens: 6, temperature: 1, endToken: 0, random: random(3), ...changes })

/** What the training path says of sampled messages, one number per token. */
const recomputed = async (policy: Policy, theta: tf.Tensor1D, asked: readonly number[][], messages: readonly SampledMessage[]): Promise<number[][]> => {
  const batch = tokenBatch(asked.map((prompt, i) => ({ ids: [...prompt, ...messages[i].tokens], marked: [[prompt.length, prompt.length + messages[i].tokens.length]] })))
  const all = policy.logProbs(theta, batch)
  const values = [...(await all.data())]
  tf.dispose([all, batch])
  return messages.map(({ tokens }) => values.splice(0, tokens.length))
}

const close = (a: readonly number[], b: readonly number[], error: number): void => {
  expect(a.length).toBe(b.length)
  a.forEach((x, i) => expect(Math.abs(x - b[i])).toBeLessThan(error))
}

describe.each(engines)('sampling on %s', (name) => {
  beforeAll(async () => {
    await initEngine(name)
  })

  test.each(Object.entries(kinds))('%s: the cache gives the log-probabilities of the full pass, at any temperature', async (_, config) => {
    const policy = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(policy.layout)))
    for (const temperature of [1, 0.6, 2, 0]) {
      const messages = await policy.sample(theta, prompts, options({ temperature }))
      const full = await recomputed(policy, theta, prompts, messages)
      messages.forEach(({ tokens, logProbs, samplingLogProbs }, i) => {
        expect(tokens.length).toBeGreaterThan(0)
        expect(tokens.slice(0, -1)).not.toContain(0)
        expect(tokens.length === 6 || tokens.at(-1) === 0).toBe(true)
        close(logProbs, full[i], 5e-6)
        if (temperature === 1) expect(samplingLogProbs).toEqual(logProbs)
        if (temperature === 0) expect(samplingLogProbs).toEqual(tokens.map(() => 0))
      })
    }
    theta.dispose()
  })
})

describe('sampling', () => {
  const policy = decoderPolicy(kinds['Qwen3-like'])
  let theta: tf.Tensor1D
  beforeAll(async () => {
    await initEngine(fastest)
    theta = tf.tensor1d(awake(layoutSize(policy.layout)))
  })

  test('same seed, same engine: the same, bit for bit; another seed: another', async () => {
    const [a, b, c] = [await policy.sample(theta, prompts, options()), await policy.sample(theta, prompts, options()), await policy.sample(theta, prompts, options({ random: random(4) }))]
    expect(b).toEqual(a)
    expect(c).not.toEqual(a)
  })

  test('a message does not depend on what else is in the batch, or on equal prompts being read once', async () => {
    const greedy = options({ temperature: 0 })
    const alone: SampledMessage[] = []
    for (const prompt of prompts) alone.push((await policy.sample(theta, [prompt], greedy))[0])
    const together = await policy.sample(theta, [...prompts, ...prompts], greedy)
    together.forEach(({ tokens, logProbs }, i) => {
      expect(tokens).toEqual(alone[i % 5].tokens)
      close(logProbs, alone[i % 5].logProbs, 5e-6)
    })
  })

  test('tokens come with the probabilities they say: first tokens of 4000 copies (chi-squared, false alarm 1e-4)', async () => {
    const n = 4000
    for (const temperature of [1, 0.5]) {
      const batch = tokenBatch([{ ids: [...prompts[0], 0], marked: [[4, 5]] }])
      const logits = [...(await policy.logDistributions(theta, batch).data())]
      const weights = logits.map((x) => Math.exp(x / temperature))
      const total = weights.reduce((a, b) => a + b)
      const messages = await policy.sample(theta, Array.from({ length: n }, () => prompts[0]), options({ maxTokens: 1, temperature, random: random(17) }))
      const counts = new Float64Array(11)
      for (const { tokens: [token], samplingLogProbs: [logProb] } of messages) {
        counts[token]++
        expect(Math.abs(logProb - Math.log(weights[token] / total))).toBeLessThan(1e-5)
      }
      const statistic = counts.reduce((sum, count, v) => sum + (count - (n * weights[v]) / total) ** 2 / ((n * weights[v]) / total), 0)
      // 99.99 % quantile of chi-squared with 10 degrees of freedom.
      expect(statistic).toBeLessThan(35.6)
    }
  })

  test('stops when every message has ended, and takes no more than maxTokens', async () => {
    const [first] = await policy.sample(theta, [prompts[0]], options({ temperature: 0, endToken: -1, maxTokens: 5 }))
    expect(first.tokens.length).toBe(5)
    const [ended] = await policy.sample(theta, [prompts[0]], options({ temperature: 0, endToken: first.tokens[1], maxTokens: 500 }))
    expect(ended.tokens).toEqual(first.tokens.slice(0, first.tokens.indexOf(first.tokens[1]) + 1))
    expect(await policy.sample(theta, [], options())).toEqual([])
    expect(await policy.sample(theta, [prompts[0]], options({ maxTokens: 0 }))).toEqual([{ tokens: [], logProbs: [], samplingLogProbs: [] }])
  })

  test('further stop tokens and a condition end a message, with what ended it in it', async () => {
    const free = await policy.sample(theta, prompts, options({ temperature: 0, endToken: -1 }))
    const third = free.map(({ tokens }) => tokens[2])
    const cut = (tokens: readonly number[], ends: (token: number) => boolean): readonly number[] => tokens.slice(0, tokens.findIndex(ends) + 1 || undefined)
    const stopped = await policy.sample(theta, prompts, options({ temperature: 0, endToken: -1, stopTokens: [third[0], third[1]] }))
    expect(stopped.map(({ tokens }) => tokens)).toEqual(free.map(({ tokens }) => cut(tokens, (token) => token === third[0] || token === third[1])))
    // Messages end one by one, so the batch shrinks on the way: nobody's tokens change.
    const lengths = [1, 6, 2, 6, 3]
    const shrinking = await policy.sample(theta, prompts, options({ temperature: 0, endToken: -1, stop: (tokens, row) => tokens.length === lengths[row] }))
    shrinking.forEach(({ tokens, logProbs }, i) => {
      expect(tokens).toEqual(free[i].tokens.slice(0, lengths[i]))
      close(logProbs, free[i].logProbs.slice(0, lengths[i]), 5e-6)
    })
  })

  test('a frozen policy is the model with nothing to train', async () => {
    const base = named(theta, policy.layout)
    const frozen = frozenPolicy(kinds['Qwen3-like'], base)
    expect(frozen.layout).toEqual([])
    expect(await frozen.sample(tf.tensor1d([]), prompts, options())).toEqual(await policy.sample(theta, prompts, options()))
    tf.dispose(base)
  })

  test('long messages, of which some end on the way: the past takes in what is recent, and nothing changes', async () => {
    const config = decoder({ maxPositions: 64 })
    const policy = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(policy.layout)))
    const lengths = [40, 15, 16, 17, 33]
    const messages = await policy.sample(theta, prompts, options({ endToken: -1, maxTokens: 40, stop: (tokens, row) => tokens.length === lengths[row] }))
    expect(messages.map(({ tokens }) => tokens.length)).toEqual(lengths)
    const full = await recomputed(policy, theta, prompts, messages)
    messages.forEach(({ logProbs }, i) => close(logProbs, full[i], 1e-5))
  })

  test.each(Object.entries(kinds))('%s: a beginning that all prompts share is read once, and changes nothing', async (_, config) => {
    const policy = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(policy.layout)))
    const common = tokens(14, 11, random(1))
    // 40 prompts of one to seven more tokens; the second is the beginning itself.
    const asked = Array.from({ length: 40 }, (_, i) => (i === 1 ? common : [...common, ...tokens(1 + (i % 7), 11, random(i + 2))]))
    const messages = await policy.sample(theta, asked, options())
    const full = await recomputed(policy, theta, asked, messages)
    messages.forEach(({ logProbs }, i) => close(logProbs, full[i], 1e-5))
  })

  test('leaves no tensors behind', async () => {
    const run = async (): Promise<void> => {
      const messages = await policy.sample(theta, prompts, options())
      const batch = tokenBatch(prompts.map((prompt, i) => ({ ids: [...prompt, ...messages[i].tokens], marked: [[prompt.length, prompt.length + 1]] })))
      tf.dispose([policy.logProbs(theta, batch), policy.logDistributions(theta, batch), tf.grad((t) => tf.sum(policy.logProbs(t as tf.Tensor1D, batch)))(theta), batch])
    }
    await run()
    const { numTensors } = tf.memory()
    await run()
    expect(tf.memory().numTensors).toBe(numTensors)
  })
})

describe('an adapter on a frozen base', () => {
  const config = decoder({ qkNorm: true })
  const full = decoderPolicy(config)
  beforeAll(async () => {
    await initEngine(fastest)
  })

  test.each([[['query', 'value']], [['key']], [['gate', 'down']], [projections]] as const)('%j: fresh, it changes nothing; trained, it is the base plus low-rank matrices', async (targets) => {
    const lora = { rank: 3, alpha: 5, targets }
    const theta = tf.tensor1d(awake(layoutSize(full.layout)))
    const base = named(theta, full.layout)
    const policy = adapterPolicy(config, base, lora)
    const fresh = initialTheta(policy, random(2))
    const batch = tokenBatch(prompts.map((ids) => ({ ids, marked: [[1, ids.length]] })))
    close([...(await policy.logProbs(fresh, batch).data())], [...(await full.logProbs(theta, batch).data())], 1e-6)

    // Add (α/r) (B A)ᵀ to the base's matrices by hand.
    const values = awake(layoutSize(policy.layout), 9)
    const own = named(tf.tensor1d(values), policy.layout)
    const merged = full.layout.map(({ name }) => {
      if (!own[`${name}.loraA`]) return base[name].flatten()
      const outputs = policy.layout.filter((slot) => slot.name.startsWith(`${name}.loraB.`))
      const products = outputs.map((slot, i) => {
        const a = tf.slice(own[`${name}.loraA`], [3 * i, 0], [3, -1]) as tf.Tensor2D
        return { output: slot.name.split('.').at(-1)!, product: tf.transpose(tf.matMul(own[slot.name] as tf.Tensor2D, a)).mul(5 / 3) }
      })
      const order = { qkv: ['query', 'key', 'value'], out: ['out'], up: ['gate', 'up'], down: ['down'] }[name.split('.').at(-1)!]!
      const widths: Record<string, number> = { query: 16, key: 8, value: 8, out: 16, gate: 24, up: 24, down: 16 }
      const change = order.map((output) => products.find((p) => p.output === output)?.product ?? tf.zeros([base[name].shape[0], widths[output]]))
      return tf.add(base[name], tf.concat(change, 1)).flatten()
    })
    const trained = tf.tensor1d(values)
    close([...(await policy.logProbs(trained, batch).data())], [...(await full.logProbs(tf.concat(merged) as tf.Tensor1D, batch).data())], 1e-5)

    const messages = await policy.sample(trained, prompts, options())
    const again = await recomputed(policy, trained, prompts, messages)
    messages.forEach(({ logProbs }, i) => close(logProbs, again[i], 5e-6))
    // The base is still there, and nothing else is.
    const { numTensors } = tf.memory()
    await policy.sample(trained, prompts, options())
    expect(tf.memory().numTensors).toBe(numTensors)
    expect(base.embedding.isDisposed).toBe(false)
  })
})

describe.each(engines)('training passes on %s', (name) => {
  beforeAll(async () => {
    await initEngine(name)
  })
  const marked = () => tokenBatch(prompts.map((ids) => ({ ids: [...ids, 1], marked: [[1, ids.length + 1]] })))
  /** Log-probabilities, and the gradient of a weighted sum of them. */
  const pass = async (policy: Policy, theta: tf.Tensor1D, dropoutSeed?: number, temperature?: number): Promise<number[][]> => {
    const options = { dropoutSeed, temperature }
    const batch = marked()
    const weights = tf.tensor1d(awake(batch.places.size, 21))
    const f = (theta: tf.Tensor): tf.Tensor => tf.sum(tf.mul(policy.logProbs(theta as tf.Tensor1D, batch, options), weights))
    const out = [policy.logProbs(theta, batch, options), policy.logDistributions(theta, batch, options).flatten(), tf.grad(f)(theta)]
    const values = await Promise.all(out.map(async (tensor) => [...(await tensor.data())]))
    tf.dispose([out, batch, weights])
    return values
  }

  test.each(Object.entries(kinds))('%s: blocks computed again in the backward pass give the same numbers, for all weights and for an adapter', async (_, config) => {
    const full = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(full.layout)))
    expect(await pass(decoderPolicy(config, { recompute: true }), theta)).toEqual(await pass(full, theta))
    const base = named(theta, full.layout)
    const lora = { rank: 2, alpha: 3, targets: projections, dropout: 0.3 }
    const adapter = adapterPolicy(config, base, lora)
    const own = tf.tensor1d(awake(layoutSize(adapter.layout), 4))
    for (const seed of [undefined, 8]) {
      expect(await pass(adapterPolicy(config, base, lora, { recompute: true }), own, seed)).toEqual(await pass(adapter, own, seed))
    }
  })

  test.each(Object.entries(kinds))('%s: a temperature divides the logits', async (_, config) => {
    const policy = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(policy.layout)))
    const [logProbs, distributions, gradient] = await pass(policy, theta, undefined, 0.7)
    const batch = marked()
    const weights = tf.tensor1d(awake(batch.places.size, 21))
    const plain = (theta: tf.Tensor): tf.Tensor2D => tf.logSoftmax(tf.div<tf.Tensor2D>(policy.logDistributions(theta as tf.Tensor1D, batch), 0.7))
    const picked = (theta: tf.Tensor): tf.Tensor1D => markedLogProbs(plain(theta), batch.picks)
    close(distributions, [...(await plain(theta).data())], 2e-5)
    close(logProbs, [...(await picked(theta).data())], 2e-5)
    const expected = [...(await tf.grad((theta) => tf.sum(tf.mul(picked(theta), weights)))(theta).data())]
    close(gradient, expected, 2e-5 * Math.hypot(...expected))
  })

  test('dropout: by its seed, and off without one, at rate 0, and where nothing is an adapter', async () => {
    const config = kinds['Llama-like']
    const full = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(full.layout)))
    const base = named(theta, full.layout)
    const policy = (dropout?: number): Policy => adapterPolicy(config, base, { rank: 2, alpha: 3, targets: projections, dropout })
    const own = tf.tensor1d(awake(layoutSize(policy().layout), 4))
    const plain = await pass(policy(), own)
    expect(await pass(policy(0), own, 1)).toEqual(plain)
    expect(await pass(policy(0.2), own)).toEqual(plain)
    expect(await pass(full, theta, 1)).toEqual(await pass(full, theta))
    const dropped = await pass(policy(0.2), own, 1)
    expect(dropped).not.toEqual(plain)
    expect(await pass(policy(0.2), own, 1)).toEqual(dropped)
    expect(await pass(policy(0.2), own, 2)).not.toEqual(dropped)
  })
})
