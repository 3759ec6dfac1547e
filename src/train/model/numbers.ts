/** 16-bit numbers as float32, exactly. */

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
