import { random, type Random } from '../util/random.js'

const purposes = [
  'warm-up', 'problems', 'rollouts', 'order', 'evaluation', 'evaluation problems', 'bootstrap', 'monitor', 'critic', 'refill', 'diagnostics', 'coordination',
  'protocols', 'probes', 'alignment',
] as const

/**
 * The stream of random numbers for one purpose and place of a run: a pure function of the seed and where it is used, so a run that
 * resumes needs no saved generator.
 *
 * @param place for example stage and position
 */
export const stream = (seed: number, purpose: (typeof purposes)[number], ...place: readonly number[]): Random =>
  [purposes.indexOf(purpose), ...place].reduce((parent, label) => parent.fork(label), random(seed))
