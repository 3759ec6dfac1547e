import { describe, expect, it } from 'vitest'
import { dTok, klByState, tvByState, tvMean } from '../../src/theory/divergence.js'
import { ratios, sampledAdvantage } from '../../src/theory/estimates.js'
import { evaluate } from '../../src/theory/evaluate.js'
import { randomPolicy, ring } from '../../src/theory/families.js'
import { empiricalBernsteinRadius, mean, proportionInterval, variance } from '../../src/theory/intervals.js'
import type { TeamMdp, TeamPolicy } from '../../src/theory/mdp.js'
import { sampledCertificate } from '../../src/theory/sampled-certificate.js'
import { simulate } from '../../src/theory/simulate.js'
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

  it('gives each of its 4n parts α/(4n), and is made of them as its statements say', () => {
    const { policies } = stageOf(mdp, 0.02)
    const [confidence, rollouts] = [0.8, 200]
    const one = sampledCertificate({ mdp, policies, order, rollouts, confidence, random: random(8) })
    // the same draws once more
    const draw = random(8)
    const failure = 0.2 / (4 * 3)
    const span = (Math.max(...mdp.reward) - Math.min(...mdp.reward)) / (1 - mdp.gamma)
    expect(one.aMax).toBeCloseTo(span, 12)
    const penalty = { thm36: 0, activeMass: 0, tvRange: 0 }
    let surrogates = 0
    for (const agent of order) {
      const [before, after] = [policies[agent], policies[agent + 1]]
      const seen = simulate(mdp, before, { rollouts, horizon: 'geometric', random: draw })
      const steps = Math.ceil(Math.log(1e-6) / Math.log(mdp.gamma))
      const gain = sampledAdvantage({ mdp, rollouts: seen, policy: before, ratio: ratios(mdp, before, after), steps, random: draw })
      const margin = empiricalBernsteinRadius(rollouts, variance(gain.samples), failure, gain.range) + gain.bias
      const part = one.steps[agent]
      expect(part.surrogate.bound).toBeCloseTo((mean(gain.samples) - margin) / (1 - mdp.gamma), 12)
      const [kl, tv] = [klByState(mdp, before, after), tvByState(mdp, before, after)]
      const above = (byState: ArrayLike<number>): number => {
        const samples = Array.from({ length: rollouts }, (_, m) => byState[seen.state[seen.start[m + 1] - 1]])
        const range = [0, Math.max(...Array.from(byState))] as const
        return Math.min(range[1], mean(samples) + empiricalBernsteinRadius(rollouts, variance(samples), failure, range))
      }
      expect(part.dTok.bound).toBeCloseTo(above(kl), 12)
      expect(part.tvMean.bound).toBeCloseTo(above(tv), 12)
      expect(part.rho.bound).toBeCloseTo(above(Array.from(mdp.activeAgent, (j) => Number(j === agent))), 12)
      const c = (Math.SQRT2 * mdp.gamma * span) / (1 - mdp.gamma) ** 2
      surrogates += part.surrogate.bound
      penalty.thm36 += c * Math.sqrt(part.dTok.bound)
      penalty.activeMass += c * Math.sqrt(part.dTok.bound * part.rho.bound)
      const shift = Math.min(2, ((2 * mdp.gamma) / (1 - mdp.gamma)) * part.tvMean.bound)
      penalty.tvRange += (shift * Math.max(...tv) * span) / (1 - mdp.gamma)
    }
    for (const name of ['thm36', 'activeMass', 'tvRange'] as const) expect(one[name]).toBeCloseTo(surrogates - penalty[name], 9)
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
