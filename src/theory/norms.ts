export const dot = (x: Float64Array, y: Float64Array): number => {
  let sum = 0
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i]
  return sum
}

/** ‖x‖∞ */
export const maxNorm = (x: Float64Array): number => {
  let max = 0
  for (let i = 0; i < x.length; i++) {
    const size = Math.abs(x[i])
    if (!(size <= max)) max = size
  }
  return max
}

/** ‖x‖₁ */
export const sumNorm = (x: Float64Array): number => {
  let sum = 0
  for (let i = 0; i < x.length; i++) sum += Math.abs(x[i])
  return sum
}
