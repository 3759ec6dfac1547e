/**
 * Whether a generated problem belongs to the test side: a fifth of all problems, chosen by a hash of
 * their text alone (FNV-1a, finished so that every bit counts), so that no seed and no run ever
 * trains on one.
 */
export const isTest = (text: string): boolean => {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash ^= hash >>> 13
  return (hash >>> 0) / 2 ** 32 < 0.2
}

/**
 * `count` problems drawn with `draw` (with replacement) from one side of that split.
 *
 * @returns null when 10 000 draws in a row missed the side: there is none, or nearly none
 */
export const drawFrom = <P extends { id: string }>(split: 'train' | 'test', count: number, draw: () => P): P[] | null => {
  const problems: P[] = []
  for (let misses = 0; problems.length < count; ) {
    const problem = draw()
    if (isTest(problem.id) === (split === 'test')) {
      problems.push(problem)
      misses = 0
    } else if (++misses === 10_000) {
      return null
    }
  }
  return problems
}
