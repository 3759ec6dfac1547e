import fc from 'fast-check'
import { expect, test } from 'vitest'
import { charTokenizer } from '../../src/train/charTokenizer.js'
import { InputError } from '../../src/util/errors.js'

const alphabet = '0123456789+-=🂡'

test('every text over the alphabet comes back', () => {
  const { encode, decode, vocabulary, endToken } = charTokenizer(alphabet)
  expect(vocabulary).toBe(16)
  fc.assert(fc.property(fc.array(fc.constantFrom(...alphabet)), (characters) => {
    const ids = encode(characters.join(''))
    expect(ids.length).toBe(characters.length)
    for (const id of ids) expect(id > endToken && id < vocabulary).toBe(true)
    expect(decode([...ids, endToken, 0])).toBe(characters.join(''))
  }))
})

test('a character outside it, or twice in it, is a clear error', () => {
  expect(() => charTokenizer('01').encode('0x')).toThrow(new InputError('text "0x": character "x" at 1 is not in the alphabet "01"'))
  expect(() => charTokenizer('010')).toThrow(new InputError('alphabet: holds "0" twice; distinct characters are needed'))
})
