// A million states with thirty non-zeros each: time and memory of one evaluation plus occupancy. `npm run build && node bench/theory/million.mjs [STATES]`
import { evaluate, randomPolicy, routed } from '../../dist/theory/index.js'
import { random } from '../../dist/util/random.js'

const states = Number(process.argv[2] ?? 1e6)
const MB = 2 ** 20
const timed = (label, f) => {
  const start = performance.now()
  const result = f()
  console.log(`${label}: ${((performance.now() - start) / 1000).toFixed(2)} s`)
  return result
}
const bytes = (object) => Object.values(object).reduce((sum, x) => sum + (ArrayBuffer.isView(x) ? x.byteLength : 0), 0)

const before = process.resourceUsage().maxRSS * 1024
const mdp = timed(`building routed, ${states} states × 3 actions × 10 successors, checked`, () =>
  routed({ agents: 4, states, actions: 3, successors: 10, gamma: 0.95 }, random(1)))
const policy = randomPolicy(mdp, random(2))
const built = process.resourceUsage().maxRSS * 1024
const result = timed('evaluate: d, V, Q, A (tolerance 1e-10)', () => evaluate(mdp, policy, { tolerance: 1e-10 }))
const peak = process.resourceUsage().maxRSS * 1024

const input = bytes(mdp) + policy.byteLength
console.log(`proven error ${result.error.toExponential(1)}, J = ${result.J}, A_max = ${result.aMax}`)
console.log(`arrays of MDP and policy ${(input / MB).toFixed(0)} MB, of the result ${(bytes(result) / MB).toFixed(0)} MB`)
console.log(`peak resident memory ${(peak / MB).toFixed(0)} MB (${((peak - before) / input).toFixed(2)} × the input arrays over the start; after building ${((built - before) / input).toFixed(2)} ×)`)
