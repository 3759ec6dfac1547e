/**
 * Certificates from logs: lower bounds on the improvement of an update and of a stage, by src/theory, from what was *estimated* on the
 * rollouts. A diagnostic, not a proof: the bounds themselves are theorems, their inputs here are samples. (The tabular certificates of
 * src/theory are exact.)
 *
 * An update on rollouts of the very team that it changes: Theorem 3.4, and the active-mass certificate beside it; a stage of such is Theorem 3.6. Updates that
 * share their rollouts are a stale stage of their own, from the team that sampled them to the one after the last of them: Theorem 3.7's exact sum under the
 * stale error ζ⁰ (theory.md, section 2), whose i-th term is what update i is certified for. It asks for radii under π̂^{i−1}; stale rollouts can only give
 * them under π̂⁰, so a stale certificate is optimistic from the second update on. A stage is the sum of its parts.
 */
import { staleStageBoundUnderStaleError, stageImprovementBound, type Bound } from '../theory/bounds.js'
import { activeMassBound, activeMassStaleBound } from '../theory/certificates.js'

/** What one update contributes. */
export interface CertificateStep {
  /** L̂, with the Â that the objective used. */
  readonly surrogate: number
  /** ζ̂ of that Â. */
  readonly zeta: number
  /** D̂_tok: the occupancy reading of the divergence at the parameters that were kept. */
  readonly radius: number
  readonly rho: number
  /** Whether its rollouts are those of the team just before it. */
  readonly fresh: boolean
}

/** A bound and its three terms. */
export interface Certificate {
  /** surrogate − penalty − error; −Infinity where the penalty is infinite. */
  readonly bound: number
  readonly surrogate: number
  readonly penalty: number
  /** Σ ζ̂_i/(1−γ). */
  readonly error: number
  /** The same with the active-mass penalty: never smaller. */
  readonly activeMass: number
}

export interface CertificateOptions {
  readonly gamma: number
  readonly aMax: number
}

/**
 * The certificates of the updates of a stage so far: of the latest one, and of all together.
 *
 * @param steps in the order of the stage, at least one
 */
export const certify = (steps: readonly CertificateStep[], constants: CertificateOptions): { update: Certificate; stage: Certificate } => {
  const parts = sharing(steps).map((part) => certifyPart(part, constants))
  const sum = (term: (part: (typeof parts)[number]) => Terms): Terms => ({
    surrogate: parts.reduce((all, part) => all + term(part).surrogate, 0),
    penalty: parts.reduce((all, part) => all + term(part).penalty, 0),
    error: parts.reduce((all, part) => all + term(part).error, 0),
  })
  const { paper, activeMass } = parts[parts.length - 1]
  return { update: certificate(last(paper), last(activeMass)), stage: certificate(sum((part) => part.paper), sum((part) => part.activeMass)) }
}

/** Runs of updates that share their rollouts. */
const sharing = (steps: readonly CertificateStep[]): CertificateStep[][] =>
  steps.reduce<CertificateStep[][]>((parts, step) => {
    if (step.fresh || parts.length === 0) parts.push([step])
    else parts[parts.length - 1].push(step)
    return parts
  }, [])

const certifyPart = (part: readonly CertificateStep[], { gamma, aMax }: CertificateOptions) => {
  const steps = part.map(({ surrogate, zeta, radius, rho }) => ({ surrogate, zeta, radius, rho }))
  if (steps.length === 1) return { paper: stageImprovementBound({ gamma, aMax, steps }), activeMass: activeMassBound({ gamma, aMax, steps }) }
  return {
    paper: staleStageBoundUnderStaleError({ gamma, aMax, steps: steps.map(({ zeta, ...step }) => ({ ...step, zetaStale: zeta })) }),
    activeMass: activeMassStaleBound({ gamma, aMax, aHatMax: 0, steps }),
  }
}

type Terms = Pick<Bound, 'surrogate' | 'penalty' | 'error'>

const last = ({ terms }: Bound): Terms => terms[terms.length - 1]

const certificate = ({ surrogate, penalty, error }: Terms, activeMass: Terms): Certificate => ({
  bound: surrogate - penalty - error,
  surrogate,
  penalty,
  error,
  activeMass: activeMass.surrogate - activeMass.penalty - activeMass.error,
})
