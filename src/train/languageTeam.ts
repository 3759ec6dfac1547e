/** The agents of a configuration that are language models, as far as they do not change while they learn. */
import { InputError } from '../util/errors.js'
import type { Random } from '../util/random.js'
import { tf } from './backend.js'
import type { Config } from './config.js'
import { readAdapter } from './languageModel.js'
import { languageVoice } from './languageVoice.js'
import { openBases, type Base } from './model/bases.js'
import { adapterPolicy, decoderPolicy } from './model/decoderPolicy.js'
import { fingerprint, tokenizerFingerprint } from './model/fingerprint.js'
import { decoderLayout, initialTheta, layoutSize, type LoraConfig } from './model/layout.js'
import { peftName, projections } from './model/projections.js'
import { weightArrays, type ModelSource } from './model/source.js'
import type { Policy } from './policy.js'
import { fileIn } from './runFolder.js'
import { servedPolicy } from './servedPolicy.js'
import type { Agent } from './team.js'
import type { Voice } from './voice.js'

/** An agent without what an update changes. */
export interface LanguageAgent extends Required<Pick<Agent, 'policy' | 'voice' | 'pretrained'>> {
  /** The θ that it begins with: its own adapter, a fresh one that changes nothing, or the whole model. @returns a vector that the caller disposes */
  initial(random: Random): tf.Tensor1D
}

/**
 * Open the models of a configuration. Agents on the same model share its weights, which are in memory once.
 *
 * @param folder of the run: where a server that samples finds the adapters
 * @param onNotice one line that the user should see
 * @throws InputError naming file, field or tensor
 */
export const openLanguageAgents = (config: Config, folder?: string, onNotice?: (text: string) => void): { agents: LanguageAgent[]; release(): void } => {
  const bases = openBases()
  const policies = new Map<string, Policy>()
  const prints = new Map<Base, string>()
  try {
    const agents = config.team.members!.map(({ model, adapter, role }, i): LanguageAgent => {
      const base = bases.open(model)
      const { source, tokenizer } = base
      const read = adapter === undefined ? undefined : readAdapter(adapter, source)
      const lora = config.lora && (read?.lora ?? loraOf(config.lora))
      if (lora && read) tellOwnLora(i, lora, loraOf(config.lora!), onNotice)
      const print = prints.get(base) ?? fingerprint(source, tokenizer)
      prints.set(base, print)
      const key = `${print} ${JSON.stringify(lora)}`
      const settings = { recompute: config.objective.recompute }
      const policy = policies.get(key)
        ?? (lora ? adapterPolicy(source.config, base.weights(), lora, settings) : decoderPolicy(source.config, settings))
      policies.set(key, policy)
      const voice = languageVoice(tokenizer, config.protocol!, role)
      checkPositions(config, i, source, voice)
      const { server } = config.rollout
      const served = server && lora && { name: `agent-${i}`, model, source, tokenizer, lora, stop: config.protocol!.stop }
      return {
        policy: served ? servedPolicy(policy, served, server[i], folder && fileIn.served(folder), onNotice) : policy,
        voice,
        pretrained: { source, lora, fingerprint: print, tokenizerFingerprint: tokenizerFingerprint(tokenizer) },
        initial: (random) => (lora ? (read ? tf.tensor1d(read.values) : initialTheta(policy, random)) : wholeTheta(base)),
      }
    })
    return { agents, release: bases.dispose }
  } catch (error) {
    bases.dispose()
    throw error
  }
}

/** An adapter that an agent begins with is what it is, whatever `lora` says. */
const tellOwnLora = (i: number, own: LoraConfig, asked: LoraConfig, onNotice?: (text: string) => void): void => {
  const others = (['rank', 'alpha', 'targets', 'dropout'] as const).filter((field) => String(own[field]) !== String(asked[field]))
  const told = (lora: LoraConfig): string => others.map((field) => `${field} ${field === 'targets' ? lora.targets.map(peftName).join(' ') : lora[field]}`).join(', ')
  if (others.length > 0) onNotice?.(`team.agents[${i}].adapter: has ${told(own)}, and goes on with it; lora, ${told(asked)}, is for adapters that are begun`)
}

/** @throws InputError when an agent has no room for a message, even with nothing said before it */
const checkPositions = ({ rollout: { maxTokens } }: Config, i: number, { path, config: { maxPositions } }: ModelSource, { prompt }: Voice): void => {
  const read = prompt('', undefined).length
  if (read + maxTokens <= maxPositions) return
  const own = read >= maxPositions ? `team.agents[${i}].role: fills` : `rollout.maxTokens: holds ${maxTokens}; agent ${i} reads`
  throw new InputError(`${own} ${read} tokens before the shared context, and ${path} has ${maxPositions} positions`)
}

const loraOf = ({ rank, alpha, targets, dropout }: NonNullable<Config['lora']>): LoraConfig =>
  ({ rank, alpha, dropout, targets: projections.filter((projection) => targets.includes(peftName(projection))) })

/** A model's own weights as one vector. */
const wholeTheta = ({ source }: Base): tf.Tensor1D => {
  const values = new Float32Array(layoutSize(decoderLayout(source.config)))
  let at = 0
  for (const { data } of weightArrays(source)) {
    values.set(data, at)
    at += data.length
  }
  return tf.tensor1d(values)
}
