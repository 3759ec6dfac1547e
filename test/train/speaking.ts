import type { Config } from '../../src/train/config.js'
import { imitate } from '../../src/train/imitate.js'
import type { MarkedSequence } from '../../src/train/model/batch.js'
import { startTeam } from '../../src/train/startTeam.js'
import type { Team } from '../../src/train/team.js'
import { random, type Random } from '../../src/util/random.js'

/** Random models that have been taught to say numbers: what they say is right often enough to learn from. */
export const speaking = async (from: Config, folder?: string): Promise<Team> => {
  const team = await startTeam(from, { folder })
  for (const agent of team.agents) {
    const before = agent.theta
    const numbers = (count: number, random: Random): MarkedSequence[] => Array.from({ length: count }, () => {
      const prompt = agent.voice.prompt(`${random.int(3)}+${random.int(3)}-${random.int(3)}=`, undefined)
      const ids = [...prompt, ...tokenizerOf(agent).encode(String(random.int(3))), agent.voice.endToken]
      return { ids, marked: [[prompt.length, ids.length]] }
    })
    agent.theta = await imitate(agent.policy, before, numbers, { steps: 60, batch: 8, learningRate: 0.02, random: random(1) })
    before.dispose()
  }
  return team
}
const tokenizerOf = ({ pretrained }: Team['agents'][number]) => pretrained!.source.tokenizer()
