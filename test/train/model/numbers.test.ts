import { expect, test } from 'vitest'
import { bfloat16, float16, toBfloat16, toFloat16 } from '../../../src/train/model/numbers.js'
import { random } from '../../../src/util/random.js'

const every = Uint16Array.from({ length: 65536 }, (_, bits) => bits)
const bytes = (numbers: Uint16Array): Uint8Array => new Uint8Array(numbers.buffer)

test.each([
  ['half precision', float16, toFloat16],
  ['bfloat16', bfloat16, toBfloat16],
] as const)('%s: every number comes back, others go to the nearest', (_, read, write) => {
  const values = read(bytes(every))
  write(values).forEach((bits, i) =>
    Number.isNaN(values[i]) ? expect(read(bytes(Uint16Array.of(bits)))[0]).toBeNaN() : bits !== i && expect(bits).toBe(i),
  )

  // Between neighbours, and exactly half-way, where the even one is right.
  const finite = [...values.keys()].filter((i) => i < 0x8000 && Number.isFinite(values[i]) && Number.isFinite(values[i + 1]))
  const source = random(1)
  const between = Float32Array.from(finite, (i) => values[i] + (values[i + 1] - values[i]) * source.next())
  write(between).forEach((bits, n) => {
    const i = finite[n]
    const nearest = between[n] - values[i] < values[i + 1] - between[n] ? i : i + 1
    if (between[n] - values[i] !== values[i + 1] - between[n] && bits !== nearest) expect(bits).toBe(nearest)
  })
  const middle = Float32Array.from(finite, (i) => (values[i] + values[i + 1]) / 2)
  write(middle).forEach((bits, n) => {
    const even = finite[n] + (finite[n] & 1)
    if (middle[n] - values[finite[n]] === values[finite[n] + 1] - middle[n] && bits !== even) expect(bits).toBe(even)
  })
})

test('too large for half precision is infinite, and signs stay', () => {
  expect([...float16(bytes(toFloat16(Float32Array.of(65519.9, 65520, -1e30, -0, 2 ** -26))))]).toEqual([65504, Infinity, -Infinity, -0, 0])
})
