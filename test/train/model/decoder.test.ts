import { beforeAll, describe, expect, test } from 'vitest'
import { initEngine, tf } from '../../../src/train/backend.js'
import { tokenBatch } from '../../../src/train/model/batch.js'
import { decoderSchema, type DecoderConfig } from '../../../src/train/model/config.js'
import { prefill } from '../../../src/train/model/decoder.js'
import { decoderPolicy } from '../../../src/train/model/decoderPolicy.js'
import { decoderLayout, layoutSize, named, slotSize } from '../../../src/train/model/layout.js'
import { validate } from '../../../src/util/validate.js'
import { awake, decoder, engines, fastest, kinds, tokens } from './models.js'

const sequences = [[9, 1], [5, 2], [12, 1]].map(([length, from]) => ({ ids: tokens(length, 11), marked: [[from, length]] as [number, number][] }))

/** Mean −log π of the marked tokens, summed in float64, and its gradient. */
const loss = async (config: DecoderConfig, values: Float32Array): Promise<number> => {
  const out = tf.tidy(() => decoderPolicy(config).logProbs(tf.tensor1d(values), tokenBatch(sequences)))
  const logProbs = (await out.data()) as Float32Array
  out.dispose()
  return -logProbs.reduce((a, b) => a + b, 0) / logProbs.length
}
const gradient = async (config: DecoderConfig, values: Float32Array): Promise<Float32Array> => {
  const out = tf.tidy(() => tf.grad((theta) => tf.neg(tf.mean(decoderPolicy(config).logProbs(theta as tf.Tensor1D, tokenBatch(sequences)))))(tf.tensor1d(values)))
  const data = (await out.data()) as Float32Array
  out.dispose()
  return data
}
const norm = (x: Iterable<number>): number => Math.hypot(...x)

describe('decoder', () => {
  beforeAll(async () => {
    await initEngine(fastest)
  })

  test('the layout is dense, and as large as the architecture says', () => {
    for (const config of Object.values(kinds)) {
      let end = 0
      for (const slot of decoderLayout(config)) {
        expect(slot.offset).toBe(end)
        end += slotSize(slot)
      }
    }
    // 2·V·d + 2·(d·(H+2K)·h + H·h·d + 3·d·f + 2d) + d
    expect(layoutSize(decoderLayout(kinds['Llama-like']))).toBe(2 * 11 * 16 + 2 * (16 * 32 + 16 * 16 + 3 * 16 * 24 + 2 * 16) + 16)
  })

  test.each(Object.entries(kinds))('%s: the gradient in every parameter is the slope of the loss (central differences)', async (_, config) => {
    const layout = decoderLayout(config)
    const values = awake(layoutSize(layout))
    const g = await gradient(config, values)
    for (const slot of layout) {
      const part = g.subarray(slot.offset, slot.offset + slotSize(slot))
      const length = norm(part)
      if (slot.name === 'positions') expect(norm(part.subarray(12 * config.hidden))).toBe(0)
      const slope = async (h: number): Promise<number> => {
        const moved = (sign: number): Float32Array => values.map((x, i) => (i < slot.offset || i >= slot.offset + part.length ? x : x + (sign * h * g[i]) / length))
        return ((await loss(config, moved(1))) - (await loss(config, moved(-1)))) / (2 * h)
      }
      // A key bias shifts all of a query's scores alike: without a gradient where nothing else sees it.
      const h = 0.02 / Math.max(length, 0.2)
      const extrapolated = (4 * (await slope(h / 2)) - (await slope(h))) / 3
      expect(Math.abs(extrapolated - length), slot.name).toBeLessThan(2e-3 * length + 2e-5)
    }
  })

  test('a token\'s log-probability depends on what is before it, and on nothing else', async () => {
    const config = kinds['Qwen3-like']
    const policy = decoderPolicy(config)
    const theta = tf.tensor1d(awake(layoutSize(policy.layout)))
    const whole = tokens(10, 11)
    const run = async (...ids: number[][]): Promise<Float32Array> =>
      (await policy.logProbs(theta, tokenBatch(ids.map((row) => ({ ids: row, marked: [[1, row.length]] })))).data()) as Float32Array
    const alone = await run(whole)
    const cut = await run(whole.slice(0, 6))
    const padded = await run(tokens(3, 11), whole, tokens(14, 11))
    cut.forEach((logProb, i) => expect(logProb).toBeCloseTo(alone[i], 5))
    alone.forEach((logProb, i) => expect(padded[2 + i]).toBeCloseTo(logProb, 5))
    const other = await run([(whole[0] + 1) % 11, ...whole.slice(1)])
    expect(Math.abs(other[8] - alone[8])).toBeGreaterThan(1e-4)
  })

  test.each(Object.entries(kinds))('%s: prompts read after a beginning of one row are read as a whole', async (_, config) => {
    const layout = decoderLayout(config)
    const weights = named(tf.tensor1d(awake(layoutSize(layout))), layout)
    const [beginning, ...rests] = [7, 5, 3].map((length) => tokens(length, 11))
    const padded = (rows: number[][], T: number): tf.Tensor2D => tf.tensor2d(rows.map((row) => [...row, ...Array<number>(T - row.length).fill(0)]), [rows.length, T], 'int32')
    const past = prefill(config, weights, padded([beginning], 7), tf.tensor1d([6], 'int32')).cache
    const after = prefill(config, weights, padded(rests, 5), tf.tensor1d([4, 5 + 2], 'int32'), past)
    const whole = prefill(config, weights, padded(rests.map((rest) => [...beginning, ...rest]), 12), tf.tensor1d([11, 12 + 9], 'int32'))
    const pairs = [[after.logits, whole.logits], ...(['keys', 'values'] as const).flatMap((kind) => after.cache[kind].map((x, l) => [x, whole.cache[kind][l]]))]
    for (const [a, b] of pairs) expect((await tf.max(tf.abs(tf.sub(a, b))).data())[0]).toBeLessThan(1e-5)
  })

  test('log-distributions are normalised and hold the tokens\' own log-probabilities', async () => {
    const policy = decoderPolicy(kinds['Llama-like'])
    const theta = tf.tensor1d(awake(layoutSize(policy.layout)))
    const batch = tokenBatch(sequences)
    const all = policy.logDistributions(theta, batch)
    expect(all.shape).toEqual([8 + 3 + 11, 11])
    ;(await tf.logSumExp(all, 1).data()).forEach((x) => expect(Math.abs(x)).toBeLessThan(1e-6))
    const own = await policy.logProbs(theta, batch).data()
    const rows = (await all.array()) as number[][]
    const marked = sequences.flatMap(({ ids, marked: [[from, to]] }) => ids.slice(from, to))
    marked.forEach((token, m) => expect(own[m]).toBe(rows[m][token]))
  })

  test('a batch refuses marks that no token predicts', () => {
    expect(() => tokenBatch([{ ids: [1, 2], marked: [[0, 1]] }])).toThrow(RangeError)
    expect(() => tokenBatch([{ ids: [1, 2], marked: [[1, 3]] }])).toThrow(RangeError)
  })

  test('a config that makes no decoder is one clear line', () => {
    const small = { vocabulary: 4, hidden: 8, layers: 1, heads: 2, intermediate: 8, maxPositions: 8 }
    expect(() => validate(decoderSchema, { ...small, kvHeads: 3 }, 'x.json')).toThrow('x.json: kvHeads: holds 3; expected a divisor of heads')
    expect(() => validate(decoderSchema, { ...small, heads: 3 }, 'x.json')).toThrow(/^x.json: headDim: .*expected an even whole number/)
    expect(() => validate(decoderSchema, { ...small, hiden: 8 }, 'x.json')).toThrow('x.json: unknown key "hiden" (did you mean "hidden"?)')
    expect(decoder().headDim).toBe(4)
  })
})

describe('the engines agree', () => {
  test.each(Object.entries(kinds))('%s: loss, log-probabilities and gradient to 1e-5', async (_, config) => {
    const values = awake(layoutSize(decoderLayout(config)))
    const results = []
    for (const name of engines) {
      await initEngine(name)
      const policy = decoderPolicy(config)
      const logProbs = tf.tidy(() => policy.logProbs(tf.tensor1d(values), tokenBatch(sequences)))
      results.push({ name, logProbs: await logProbs.data(), loss: await loss(config, values), gradient: await gradient(config, values) })
      logProbs.dispose()
    }
    const [reference, ...others] = results.reverse()
    expect(reference.name).toBe('cpu')
    for (const { logProbs, loss, gradient } of others) {
      expect(Math.abs(loss / reference.loss - 1)).toBeLessThan(1e-5)
      expect(norm(logProbs.map((x, i) => x - reference.logProbs[i])) / norm(reference.logProbs)).toBeLessThan(1e-5)
      expect(norm(gradient.map((x, i) => x - reference.gradient[i])) / norm(reference.gradient)).toBeLessThan(1e-5)
    }
    expect(others.length).toBe(engines.length - 1)
  })
})
