import { describe, expect, it } from 'vitest'
import { dTok, tvMean } from '../../src/theory/divergence.js'
import { evaluate } from '../../src/theory/evaluate.js'
import { randomPolicy, ring } from '../../src/theory/families.js'
import { proportionInterval } from '../../src/theory/intervals.js'
import type { TeamMdp, TeamPolicy } from '../../src/theory/mdp.js'
import { sampledCertificate } from '../../src/theory/sampled-certificate.js'
import { tiltToRadius } from '../../src/theory/update.js'
import { random } from '../../src/util/random.js'

/** A stage of exact tilts: π̂⁰ … π̂ⁿ, and what a certificate of it must not exceed. */
const stageOf = (mdp: TeamMdp, radius: number) => {
  const policies: TeamPolicy[] = [randomPolicy(mdp, random(1), 0.5)]
  const truth = []
  for (let agent = 0; agent < mdp.n; agent++) {
    const before = policies[agent]
    const { d, A, rho, J } = evaluate(mdp, before)
    const after = tiltToRadius({ mdp, policy: before, agent, d, A }, radius).policy
    let surrogate = 0
    for (let s = 0; s < mdp.states; s++)
      for (let k = mdp.actionStart[s]; k < mdp.actionStart[s + 1]; k++) surrogate += (d[s] * after[k] * A[k]) / (1 - mdp.gamma)
    truth.push({ surrogate, dTok: dTok(mdp, d, before, after), tvMean: tvMean(mdp, d, before, after), rho: rho[agent], J })
    policies.push(after)
  }
  return { policies, truth, improvement: evaluate(mdp, policies[mdp.n]).J - truth[0].J }
}

describe('the certificate from samples', () => {
  const mdp = ring({ agents: 3, levels: 2, actions: 2, gamma: 0.6 }, random(3))
  const order = [0, 1, 2]

  it('fails no more often than α: a part wrong, or a bound above the improvement (error probability of this test 1e-6)', () => {
    const { policies, truth, improvement } = stageOf(mdp, 0.02)
    const draw = random(4)
    const trials = 400
    let wrong = 0
    for (let k = 0; k < trials; k++) {
      const certificate = sampledCertificate({ mdp, policies, order, rollouts: 150, confidence: 0.5, random: draw })
      expect(certificate.best).toBe(Math.max(certificate.thm36, certificate.activeMass, certificate.tvRange))
      const partsWrong = certificate.steps.some(
        ({ surrogate, dTok, tvMean, rho }, i) =>
          surrogate.bound > truth[i].surrogate || dTok.bound < truth[i].dTok || tvMean.bound < truth[i].tvMean || rho.bound < truth[i].rho,
      )
      if (partsWrong || certificate.best > improvement) wrong++
    }
    expect(proportionInterval(wrong, trials, { confidence: 1 - 2e-6 }).low).toBeLessThanOrEqual(0.5)
  })

  it('has teeth: the estimates without their margins are wrong nearly always', () => {
    const { policies, truth } = stageOf(mdp, 0.02)
    const draw = random(5)
    let wrong = 0
    for (let k = 0; k < 50; k++) {
      const { steps } = sampledCertificate({ mdp, policies, order, rollouts: 150, random: draw })
      if (
        steps.some(
          ({ surrogate, dTok, tvMean, rho }, i) =>
            surrogate.estimate > truth[i].surrogate ||
            dTok.estimate < truth[i].dTok ||
            tvMean.estimate < truth[i].tvMean ||
            rho.estimate < truth[i].rho,
        )
      )
        wrong++
    }
    expect(wrong).toBeGreaterThan(45)
  })

  it('is not empty: with enough rollouts it certifies an improvement, and tightens towards its exact value', () => {
    const mild = ring({ agents: 2, levels: 2, actions: 2, gamma: 0.2 }, random(6))
    const { policies, improvement } = stageOf(mild, 0.01)
    const certify = (rollouts: number) =>
      sampledCertificate({ mdp: mild, policies, order: [0, 1], rollouts, confidence: 0.95, random: random(7) })
    const few = certify(500)
    const many = certify(60_000)
    expect(many.best).toBeGreaterThan(few.best)
    expect(many.best).toBeGreaterThan(0)
    expect(many.best).toBeLessThanOrEqual(improvement)
  })
})
