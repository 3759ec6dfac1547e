/** 16-bit numbers as float32, exactly, and float32 as the nearest 16-bit number (ties to even). */
import { InputError } from '../../util/errors.js'

/** IEEE half precision. */
export const fromHalf = (bits: number): number => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 31
  const fraction = bits & 1023
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (1024 + fraction) * 2 ** (exponent - 25)
}

/** Little-endian half precision. @param bytes two per number */
export const float16 = (bytes: Uint8Array): Float32Array => {
  const floats = new Float32Array(bytes.length / 2)
  for (let i = 0; i < floats.length; i++) floats[i] = fromHalf(bytes[2 * i] | (bytes[2 * i + 1] << 8))
  return floats
}

/** Little-endian bfloat16: the upper half of a float32. @param bytes two per number */
export const bfloat16 = (bytes: Uint8Array): Float32Array => {
  const bits = new Uint32Array(bytes.length / 2)
  for (let i = 0; i < bits.length; i++) bits[i] = ((bytes[2 * i] | (bytes[2 * i + 1] << 8)) << 16) >>> 0
  return new Float32Array(bits.buffer)
}

const bitsOf = (values: Float32Array): Uint32Array => new Uint32Array(values.buffer, values.byteOffset, values.length)

/** float32 as little-endian bfloat16. */
export const toBfloat16 = (values: Float32Array): Uint16Array =>
  Uint16Array.from(bitsOf(values), (bits) =>
    (bits & 0x7fffffff) > 0x7f800000 ? (bits >>> 16) | 64 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16,
  )

/** float32 as little-endian half precision; what is too large becomes infinity. */
export const toFloat16 = (values: Float32Array): Uint16Array => Uint16Array.from(values, toHalf)

const toHalf = (x: number): number => {
  const sign = Object.is(x, -0) || x < 0 ? 0x8000 : 0
  const size = Math.abs(x)
  if (Number.isNaN(x)) return 0x7e00
  if (size >= 65520) return sign | 0x7c00
  // Spacing of half-precision numbers at this size; a significand that rounds up to the next power of two carries into the exponent by
  // itself.
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size))
  return sign | (((exponent + 14) << 10) + roundToEven(size / 2 ** (exponent - 10)))
}

const roundToEven = (x: number): number => {
  const down = Math.floor(x)
  return x - down > 0.5 || (x - down === 0.5 && down % 2 === 1) ? down + 1 : down
}

/** The values themselves, as weights can be computed with. @param where for messages @throws InputError where one is NaN or infinite */
export const finite = (values: Float32Array, where: string): Float32Array => {
  // x · 0 is 0 for finite x only: one sum tells of all, without a branch for each.
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i] * 0
  if (sum === 0) return values
  const at = values.findIndex((x) => !Number.isFinite(x))
  throw new InputError(`${where}: element ${at} is ${values[at]}; finite numbers are needed`)
}
