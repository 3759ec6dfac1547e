import { beforeAll, expect, test } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { imitate } from '../../src/train/imitate.js'
import { tokenBatch, type MarkedSequence } from '../../src/train/model/batch.js'
import { decoderPolicy } from '../../src/train/model/decoderPolicy.js'
import { initialTheta } from '../../src/train/model/layout.js'
import { random, type Random } from '../../src/util/random.js'
import { decoder, fastest } from './model/models.js'

/** The player repeats the context's last token with probability 0.7, else says 5; then ends (10). */
const demonstrations = (count: number, source: Random): MarkedSequence[] =>
  Array.from({ length: count }, () => {
    const context = [6 + source.int(4), source.int(5)]
    return { ids: [...context, source.next() < 0.7 ? context[1] : 5, 10], marked: [[2, 4]] }
  })

beforeAll(async () => {
  await initEngine(fastest)
})

test('imitation finds the player\'s own probabilities, the same way every time, and leaves no tensors behind', async () => {
  const policy = decoderPolicy(decoder())
  const theta = initialTheta(policy, random(1))
  const losses: number[] = []
  const { numTensors } = tf.memory()
  const train = (onStep?: (done: number, loss: number) => void) => imitate(policy, theta, demonstrations, { steps: 150, batch: 64, learningRate: 0.01, random: random(2), onStep })
  const trained = await train((done, loss) => losses.push(loss) && expect(done).toBe(losses.length))
  expect(tf.memory().numTensors).toBe(numTensors + 1)
  expect(losses.length).toBe(150)
  // From the uniform ln 11 to the entropy of the player: H(0.7) for the first token, 0 for the second.
  const entropy = -(0.7 * Math.log(0.7) + 0.3 * Math.log(0.3)) / 2
  expect(losses[0]).toBeGreaterThan(2)
  expect(losses.slice(-20).reduce((a, b) => a + b) / 20).toBeLessThan(entropy + 0.03)
  const [own, five] = await policy.logProbs(trained, tokenBatch([{ ids: [7, 3, 3], marked: [[2, 3]] }, { ids: [7, 3, 5], marked: [[2, 3]] }])).data()
  expect(Math.abs(Math.exp(own) - 0.7)).toBeLessThan(0.08)
  expect(Math.abs(Math.exp(five) - 0.3)).toBeLessThan(0.08)
  expect(await (await train()).data()).toEqual(await trained.data())
})
