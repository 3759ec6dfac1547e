/** What a swap cost and how soon the team was back, from the folder of the run that went on: plain data in, plain data out. */
import { z } from 'zod'
import { replacementBound, tightening } from '../theory/bounds.js'
import { readJson } from '../util/files.js'
import { validate } from '../util/validate.js'
import type { Certificate } from './certificate.js'
import { compareEvaluations } from './evaluateTeam.js'
import type { Replacement } from './replacement.js'
import { fileIn, type RecordedRun } from './runFolder.js'
import type { Estimate } from './estimate.js'
import type { UpdateRecord } from './stage.js'
import { stream } from './streams.js'

/** Proposition 3.8 on the first stage, from what was logged: estimates, as every certificate of a run is. */
export interface SampledReplacementBound {
  /** J(aligned) + Theorem 3.6 over the new team's own surrogates, radii and errors: what J(π̄) is certified to reach. */
  readonly bound: number
  /** J of the team that the stage began with, and of the team after it: that and the measured improvement, with its interval. */
  readonly alignedReturn: number
  readonly reached: Estimate
}

export interface Recovery {
  readonly stages: number
  /** Held-out reward at the latest evaluation. */
  readonly latest: Estimate
  /** Reward of the team as it was less the latest: 95 % bootstrap interval of the paired differences. */
  readonly left: Estimate
  /** The first evaluated stage at which that interval held 0 or lay below; null: none yet. */
  readonly recoveredAfter: number | null
  /** null before the first stage is done, and where its updates share rollouts. */
  readonly bound: SampledReplacementBound | null
  /** The certificate of the last stage before the swap and of the first one after, and what moved the bound, by cause (Proposition 3.9); null where one is missing. */
  readonly certificates: { readonly before: Certificate; readonly after: Certificate; readonly change: ReturnType<typeof tightening> } | null
}

/** @param swap of the same run */
export const recovery = ({ config, updates, evaluations }: RecordedRun, swap: Replacement): Recovery => {
  const random = () => stream(config.seed, 'bootstrap', 0)
  const losses = evaluations.map((evaluation) => ({ stage: evaluation.stage, loss: compareEvaluations(evaluation, swap.before, random()) }))
  const latest = evaluations.at(-1)
  const first = updates.filter(({ stage }) => stage === 0)
  const after = first.at(-1)?.stageCertificate ?? null
  const bare = ({ bound, surrogate, penalty, error, activeMass }: Certificate): Certificate => ({ bound, surrogate, penalty, error, activeMass })
  return {
    stages: latest?.stage ?? 0,
    latest: latest?.reward ?? (swap.aligned ?? swap.direct).reward,
    left: losses.at(-1)?.loss ?? (swap.aligned ?? swap.direct).shock,
    recoveredAfter: losses.find(({ loss }) => loss.low <= 0)?.stage ?? null,
    bound: after && sampledBound(config, first, swap, after.improvement),
    certificates: after && swap.certificate && {
      before: swap.certificate, after: bare(after), change: tightening({ ...swap.certificate, terms: [] }, { ...bare(after), terms: [] }),
    },
  }
}

const sampledBound = (
  { gamma, method, certificate: { aMax } }: RecordedRun['config'], updates: readonly UpdateRecord[], swap: Replacement, improvement: Estimate,
): SampledReplacementBound | null => {
  if (method.occupancy !== 'intermediate' || method.resampleEvery !== 1 || method.update !== 'sequential') return null
  const alignedReturn = (swap.aligned ?? swap.direct).return.estimate
  const steps = updates.map(({ surrogate, divergence, zeta }) =>
    ({ surrogate: surrogate.value, radius: (divergence.exact ?? divergence.lowVariance).occupancy, zeta: zeta.total }))
  const at = (x: number): number => alignedReturn + x
  return {
    bound: replacementBound({ gamma, alignedReturn, aMax, steps }).bound,
    alignedReturn,
    reached: { estimate: at(improvement.estimate), low: at(improvement.low), high: at(improvement.high) },
  }
}

const estimate = z.looseObject({ estimate: z.number(), low: z.number(), high: z.number() })
const performance = z.looseObject({ reward: estimate, return: estimate, rewards: z.array(z.number()) })
const swapped = performance.extend({ shock: estimate, kl: estimate })

/** Enough to know swap.json from something else; the rest of it is read as it was written. */
const swapSchema = z.looseObject({
  agent: z.int(), added: z.boolean(), contexts: z.int(), before: performance, direct: swapped, aligned: swapped.nullable(),
})

/** How the team of a run came to be. @throws InputError when it is no run with a swap */
export const readSwap = (folder: string): Replacement => {
  const file = fileIn.swap(folder)
  return validate(swapSchema, readJson(file), file) as unknown as Replacement
}
