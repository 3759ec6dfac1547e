/**
 * Certificates from logs: lower bounds on the improvement of an update and of a stage, by src/theory, from what was *estimated* on the
 * rollouts. A diagnostic, not a proof: the bounds themselves are theorems, their inputs here are samples. (The tabular certificates of
 * src/theory are exact.)
 *
 * With intermediate occupancy: Theorem 3.4 per update, Theorem 3.6 per stage, and the active-mass certificate beside each. With stale
 * occupancy: Theorem 3.7's exact sum under the stale error ζ⁰ (theory.md, section 2), whose i-th term is what update i is certified for.
 * It asks for radii under π̂^{i−1}; stale rollouts can only give them under π̂⁰, so a stale certificate is optimistic from the second
 * update of a stage on.
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
  readonly occupancy: 'intermediate' | 'stale'
}

/**
 * The certificates of the updates of a stage so far: of the latest one, and of all together.
 *
 * @param steps in the order of the stage, at least one
 */
export const certify = (
  steps: readonly CertificateStep[], { gamma, aMax, occupancy }: CertificateOptions,
): { update: Certificate; stage: Certificate } => {
  const stale = occupancy === 'stale'
  const paper = stale
    ? staleStageBoundUnderStaleError({ gamma, aMax, steps: steps.map(({ zeta, ...step }) => ({ ...step, zetaStale: zeta })) })
    : stageImprovementBound({ gamma, aMax, steps })
  const activeMass = stale ? activeMassStaleBound({ gamma, aMax, aHatMax: 0, steps }) : activeMassBound({ gamma, aMax, steps })
  return { update: certificate(last(paper), last(activeMass)), stage: certificate(paper, activeMass) }
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
