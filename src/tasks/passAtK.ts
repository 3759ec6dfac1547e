/**
 * pass@k from n ≥ k samples of a problem, c of them correct: the probability that k of them, drawn
 * without replacement, hold a correct one, 1 − C(n−c, k) / C(n, k), which estimates the chance that one
 * of k fresh samples is correct without bias (Chen et al. 2021). As a product, in logarithms: no
 * binomial overflows, and small values keep their digits.
 *
 * @throws RangeError unless 0 ≤ c ≤ n and 1 ≤ k ≤ n, all integers
 */
export const passAtK = (n: number, c: number, k: number): number => {
  if (![n, c, k].every(Number.isInteger) || c < 0 || c > n || k < 1 || k > n) {
    throw new RangeError(`pass@${k} of ${c} correct in ${n} samples: expected integers with 0 ≤ c ≤ n and 1 ≤ k ≤ n`)
  }
  if (n - c < k) return 1
  let logMiss = 0
  for (let i = n - c + 1; i <= n; i++) logMiss += Math.log1p(-k / i)
  return 0 - Math.expm1(logMiss)
}
