/**
 * DAPO's dynamic sampling: a group whose returns are all equal teaches nothing, so further problems take its place.
 *
 * What is kept depends on its returns, so it says nothing unbiased of J. The problems that were drawn at first do, dropped ones too: estimates of returns
 * and improvements are theirs (`Rollouts.sampled`), always as many as asked for. (The mean over all problems would be biased: how many there are depends on
 * the returns.) What an update estimates on its own rollouts (surrogate, divergence, ρ) is of what was kept.
 */
import { byProblem, sampledEpisodes, sampledTokens, type Episode, type Rollouts } from './rollout.js'

/**
 * @param first what was sampled
 * @param rounds at most
 * @param sample further problems: so many, in this round, from 1
 * @returns the groups of unequal returns; the first ones, where there is no such group
 */
export const refilled = async (first: Rollouts, rounds: number, sample: (problems: number, round: number) => Promise<Rollouts>): Promise<Rollouts> => {
  const wanted = first.problems.length
  const kept = unequalGroups(first)
  let [episodes, tokens] = [sampledEpisodes(first), sampledTokens(first)]
  for (let round = 1; round <= rounds && kept.length < wanted; round++) {
    const more = await sample(wanted - kept.length, round)
    episodes += sampledEpisodes(more)
    tokens += sampledTokens(more)
    kept.push(...unequalGroups(more))
  }
  return {
    ...(kept.length === 0 ? first : {
      group: first.group,
      problems: kept.map(({ id }) => id),
      episodes: kept.flatMap(({ episodes }, problem) => episodes.map((episode) => ({ ...episode, problem }))),
    }),
    sampled: { returns: [...byProblem(first, (episode) => episode.return)], rewards: [...byProblem(first, (episode) => episode.reward)], episodes, tokens },
  }
}

const unequalGroups = ({ problems, group, episodes }: Rollouts): { id: string; episodes: readonly Episode[] }[] =>
  problems
    .map((id, p) => ({ id, episodes: episodes.slice(p * group, (p + 1) * group) }))
    .filter(({ episodes }) => episodes.some((episode) => episode.return !== episodes[0].return))
