/** Names of the statements as tables print them, in the order in which they are read: the paper first. */
export const STATEMENT_NAMES: Readonly<Record<string, string>> = {
  lemma31: 'Lemma 3.1, active factor',
  lemma31Expectation: 'Lemma 3.1, expectations',
  lemma32: 'Lemma 3.2, token chain rule',
  performanceDifference: 'performance difference',
  advantageBound: 'A_max ≤ 2R_max/(1−γ)',
  activeMassSum: '|Σρ_i − 1| ≤ ½Σ‖d^i − d⁰‖',
  shiftTv: 'shift ≤ total variation',
  shiftActiveMassChanged: 'shift ≤ active mass, changed rows',
  shiftActiveMass: 'shift ≤ active mass',
  shiftPinsker: 'shift ≤ Pinsker',
  cumulativeShift: '‖d^i − d⁰‖ ≤ Σ shifts',
  prop33: 'Proposition 3.3',
  thm34: 'Theorem 3.4',
  thm34Step: "Theorem 3.4, the step's own A_max",
  thm36: 'Theorem 3.6',
  thm36Own: "Theorem 3.6, own states' sums",
  thm37Exact: 'Theorem 3.7, exact sum',
  thm37Paper: 'Theorem 3.7, n·Σ√δ',
  thm37Split: 'Theorem 3.7, c and ĉ apart',
  thm37ZetaStale: 'Theorem 3.7, stale error',
  staleOwnStates: 'stale, own states',
  prop38: 'Proposition 3.8',
  prop39: 'Proposition 3.9',
  activeMass: 'active mass',
  activeMassChanged: 'active mass, changed rows',
  activeMassMessage: 'active mass, message radius',
  activeMassStale: 'active mass, stale',
  staleOwnStatesTv: 'stale, own states, total variation',
  staleGap: 'Σ|L_seq − L_stale|, own states',
  tv: 'total variation',
  tvCapped: 'total variation, capped',
  tvStale: 'total variation, stale',
  maxKl: 'max KL',
  rangePinsker: 'range, Pinsker',
  rangeActiveMass: 'range, active mass',
  rangeTv: 'range, total variation',
  halfSpanPinsker: 'half-span, Pinsker',
  halfSpanActiveMass: 'half-span, active mass',
  halfSpanTv: 'half-span, total variation',
  order: 'order of the certificates',
  best: 'best of the named ones',
}

const ESTIMATED = ', estimated'

/** The printed name of a statement's id; `thm36, estimated` keeps its ending. */
export const statementName = (id: string): string =>
  id.endsWith(ESTIMATED) ? `${statementName(id.slice(0, -ESTIMATED.length))}${ESTIMATED}` : (STATEMENT_NAMES[id] ?? id)

/** Ids in the order of the names, each statement's estimated form after it. */
export const inReadingOrder = (ids: readonly string[]): string[] => {
  const rank = new Map(
    Object.keys(STATEMENT_NAMES).flatMap(
      (id, i) =>
        [
          [id, 2 * i],
          [id + ESTIMATED, 2 * i + 1],
        ] as const,
    ),
  )
  return [...ids].sort((a, b) => (rank.get(a) ?? Infinity) - (rank.get(b) ?? Infinity))
}
