import type { Respond } from '../benchmark.js'

/** The judge of AR-Bench: which of some numbered key points a text meets. Only for the process scores; final scores need none. */

/** Points met, of how many. */
export interface KeyPoints {
  readonly met: readonly string[]
  readonly of: number
}

/** @param points what the judge reads as `1. …`, `2. …` */
export const numbered = (points: readonly string[]): string => points.map((point, i) => `${i + 1}. ${point}`).join('\n')

/**
 * Ask the judge and read its list: the numbers after `Match point:` (case ignored), those that exist,
 * each once. A reply without the list meets nothing.
 */
export const judgeKeyPoints = async (judge: Respond, question: string, points: readonly string[]): Promise<KeyPoints> => {
  const reply = await judge(
    `${question}\n\nKey points:\n${numbered(points)}\n\n` +
      'Reply in exactly this form, with the numbers of the key points met and how many they are: Match point: 1, 3, Match count: 2\n' +
      'If none is met, reply: Match point: none, Match count: 0',
  )
  const list = /match point:[ \t]*((?:\d{1,4}(?:[ \t]*,[ \t]*)?)*)/i.exec(reply.slice(0, 100_000))?.[1] ?? ''
  const indices = new Set((list.match(/\d+/g) ?? []).map((digits) => Number(digits) - 1))
  return { met: points.filter((_, i) => indices.has(i)), of: points.length }
}
