/**
 * The methods by name: settings of the one loop (stage.ts), and nothing else. What a method brings for other sections of a configuration stands
 * beneath what the user writes there.
 *
 * What is no method but a choice beside it: `order`, δ (`trustRegion.delta`), the part of the tokens that the KL is measured on (`trustRegion.fraction`). A
 * single agent that plays every role of the relay is a team of one with as many rounds as there were agents: the same problems, turns and γ.
 */
import { isObject } from '../util/objects.js'
import type { ConfigInput, MethodSettings } from './config.js'

export interface Method {
  /** One line. */
  readonly about: string
  readonly method: MethodSettings
  /** For other sections. */
  readonly defaults?: Omit<ConfigInput, 'method'>
}

const teamtr: MethodSettings = { occupancy: 'intermediate', resampleEvery: 1, correction: 'none', update: 'sequential', acceptance: 'scale' }
const stale: MethodSettings = { ...teamtr, occupancy: 'stale' }
/** A baseline of the paper: sequential, on rollouts cached at the start of the stage, held back by its objective alone. */
const cached: MethodSettings = { ...stale, acceptance: 'none' }

const fixedBeta = (initial: number) => ({ initial, factor: 1, min: 0 })

export const methods: Readonly<Record<string, Method>> = {
  teamtr: { about: 'TeamTR: rollouts of the intermediate team, and a trust region that is enforced', method: teamtr },
  stale: { about: 'the same trust region, on rollouts from the start of the stage', method: stale },
  joint: { about: 'all agents at once on the ratio of the whole episode, no acceptance', method: { ...cached, update: 'joint' } },
  happo: { about: 'stale; the ratio of the agents already updated multiplies the advantage (HAPPO), no acceptance', method: { ...cached, correction: 'compound' } },
  importance: { about: 'stale; means under importance weights in place of resampling', method: { ...stale, correction: 'importance' } },
  ppo: {
    about: 'PPO on stale rollouts: clipped, GAE on a learned critic, no KL, no acceptance',
    method: cached,
    defaults: {
      advantage: { baseline: 'value', lambda: 0.95, clip: null },
      objective: { clip: 0.2 },
      trustRegion: { beta: fixedBeta(0) },
    },
  },
  grpo: {
    about: 'GRPO on stale rollouts: mean over a message’s tokens, fixed β on the KL to the initial policy, no acceptance',
    method: cached,
    defaults: {
      advantage: { clip: null },
      objective: { clip: 0.2, ratio: 'token', average: 'message', estimator: 'lowVariance', reference: 'initial' },
      trustRegion: { beta: fixedBeta(0.04) },
    },
  },
  dapo: {
    about: 'DAPO on stale rollouts: clip {0.2, 0.28}, all tokens alike, groups refilled, no KL, no acceptance',
    method: cached,
    defaults: {
      rollout: { refill: 3 },
      advantage: { clip: null },
      objective: { clip: { low: 0.2, high: 0.28 }, ratio: 'token', average: 'token' },
      trustRegion: { beta: fixedBeta(0) },
    },
  },
  'adaptive-kl-only': { about: 'TeamTR without acceptance: β adapts, an update is taken as it is', method: { ...teamtr, acceptance: 'none' } },
  'fixed-kl-only': {
    about: 'TeamTR without acceptance, β fixed', method: { ...teamtr, acceptance: 'none' }, defaults: { trustRegion: { beta: { factor: 1 } } },
  },
  'no-trust-region': {
    about: 'TeamTR’s rollouts alone: no KL, no acceptance', method: { ...teamtr, acceptance: 'none' }, defaults: { trustRegion: { beta: fixedBeta(0) } },
  },
  'resample-every-2': { about: 'TeamTR, rollouts anew before every second update', method: { ...teamtr, resampleEvery: 2 } },
  'adaptive-delta': {
    about: 'TeamTR; δ grows after a measured improvement and shrinks after a loss',
    method: teamtr,
    defaults: { trustRegion: { adaptive: { factor: 1.5, min: 1e-3, max: 0.1 } } },
  },
  'no-normalisation': { about: 'TeamTR; advantages are not divided by the deviation of their group', method: teamtr, defaults: { advantage: { normalise: false } } },
  'no-advantage-clipping': { about: 'TeamTR; advantages are not clipped', method: teamtr, defaults: { advantage: { clip: null } } },
  'quarter-monitor': { about: 'TeamTR; the KL is measured on a quarter of the tokens', method: teamtr, defaults: { trustRegion: { fraction: 0.25 } } },
}
export const methodNames: readonly string[] = Object.keys(methods)

/** Names and what they are, a line each. */
export const methodList = (): string =>
  Object.entries(methods).map(([name, { about }]) => `  ${name.padEnd(Math.max(...methodNames.map(({ length }) => length)))}  ${about}`).join('\n')

/** A method by its name; undefined where there is none of that name. */
export const methodNamed = (name: unknown): Method | undefined =>
  typeof name === 'string' && Object.hasOwn(methods, name) ? methods[name] : undefined

/** A configuration as it was given, with what its method brings put beneath it. Whatever is not a configuration is left as it is, for validation to find. */
export const withDefaultsOfMethod = (given: unknown): unknown => {
  if (!isObject(given)) return given
  const name = isObject(given.method) ? given.method.name : given.method
  return beneath(methodNamed(name)?.defaults, given)
}

/** `given` with every field that it lacks from `defaults`, at any depth. */
const beneath = (defaults: unknown, given: unknown): unknown => {
  if (given === undefined) return defaults
  if (!isObject(defaults) || !isObject(given)) return given
  return Object.fromEntries([...new Set([...Object.keys(defaults), ...Object.keys(given)])].map((key) => [key, beneath(defaults[key], given[key])]))
}
