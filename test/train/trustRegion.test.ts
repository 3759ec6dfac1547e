import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextBeta, nextDelta, scaleBack } from '../../src/train/trustRegion.js'

const between = (min: number, max: number) => fc.double({ min, max, noNaN: true })
const rule = { factor: 2, min: 0.01, max: 100 }

describe('nextBeta', () => {
  it('rises above 1.5 δ, falls below δ/1.5, stays between', () => {
    expect(nextBeta(1, 0.031, 0.02, rule)).toBe(2)
    expect(nextBeta(1, 0.03, 0.02, rule)).toBe(1)
    expect(nextBeta(1, 0.014, 0.02, rule)).toBe(1)
    expect(nextBeta(1, 0.013, 0.02, rule)).toBe(0.5)
  })
  it('stays in its bounds, and takes no number for too large', () => {
    expect(nextBeta(80, 1, 0.02, rule)).toBe(100)
    expect(nextBeta(0.011, 0, 0.02, rule)).toBe(0.01)
    expect(nextBeta(1, NaN, 0.02, rule)).toBe(2)
    expect(nextBeta(1, Infinity, 0.02, rule)).toBe(2)
  })
})

describe('scaleBack', () => {
  it('takes an update whole that holds', async () => {
    expect(await scaleBack(async () => 0.019, 0.02)).toEqual({ scale: 1, divergence: 0.019, proposed: 0.019, measurements: 1 })
  })

  it('finds √(δ/D) on a quadratic in one probe', async () => {
    const step = await scaleBack(async (s) => 0.5 * s * s, 0.02)
    expect(step.measurements).toBe(2)
    expect(step.scale).toBeCloseTo(Math.sqrt(0.98 * 0.02 / 0.5), 12)
  })

  it('refuses what never holds', async () => {
    const step = await scaleBack(async (s) => 1 + s, 0.02)
    expect(step).toMatchObject({ scale: 0, divergence: 0, proposed: 2 })
    expect((await scaleBack(async () => NaN, 0.02)).scale).toBe(0)
  })

  // Any function at all: sums of powers and waves (so not monotone), with jumps, negative values, infinities and NaN.
  const divergence = fc.record({
    power: between(0.2, 4),
    size: between(1e-6, 1e3),
    wave: between(-2, 2),
    frequency: between(0, 200),
    holes: fc.array(fc.record({ at: between(0, 1), value: fc.constantFrom(NaN, Infinity, -1, 1e9) }), { maxLength: 3 }),
  }).map(({ power, size, wave, frequency, holes }) => (s: number) => {
    const hole = holes.find(({ at }) => Math.abs(at - s) < 0.05)
    return hole ? hole.value : size * s ** power * (1 + wave * Math.sin(frequency * s))
  })

  it('never accepts what was measured above δ, whatever the divergence does along the line', async () => {
    await fc.assert(fc.asyncProperty(divergence, between(1e-6, 10), async (f, delta) => {
      const measured: number[] = []
      const step = await scaleBack(async (s) => { measured.push(s); return f(s) }, delta)
      for (const s of measured) expect(s > 0 && s <= 1).toBe(true)
      expect(step.divergence).toBeLessThanOrEqual(delta)
      expect(step.measurements).toBe(measured.length)
      expect(measured.length).toBeLessThanOrEqual(9)
      if (step.scale === 0) expect(step.divergence).toBe(0)
      else {
        expect(measured).toContain(step.scale)
        expect(step.divergence).toBe(f(step.scale))
      }
    }), { numRuns: 2000 })
  })

  it('uses most of the region where the divergence is smooth and grows', async () => {
    await fc.assert(fc.asyncProperty(between(1, 3), between(1.05, 100), async (power, ratio) => {
      const step = await scaleBack(async (s) => 0.02 * ratio * s ** power, 0.02)
      expect(step.divergence).toBeGreaterThan(0.5 * 0.02)
    }), { numRuns: 500 })
  })
})

it('δ grows after a measured improvement, shrinks after a loss, and stays inside its bounds', () => {
  const rule = { factor: 2, min: 0.005, max: 0.03 }
  expect(nextDelta(0.01, { low: 0.1, high: 0.2 }, rule)).toBe(0.02)
  expect(nextDelta(0.02, { low: 0.1, high: 0.2 }, rule)).toBe(0.03)
  expect(nextDelta(0.01, { low: -0.1, high: 0.2 }, rule)).toBe(0.01)
  expect(nextDelta(0.008, { low: -0.2, high: -0.1 }, rule)).toBe(0.005)
})
