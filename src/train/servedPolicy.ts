/**
 * Sampling by an inference server that speaks OpenAI's completions (vLLM, SGLang, llama.cpp), in place of the model here: the server gets prompts as
 * token ids and the agent's adapter as a PEFT folder, whenever that has changed. Log-probabilities are always computed here.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { z } from 'zod'
import { InputError, messageOf } from '../util/errors.js'
import { endpoint, post } from '../util/post.js'
import { show, validate } from '../util/validate.js'
import { tf } from './backend.js'
import type { ServerSettings } from './config.js'
import { firstStop } from './generate.js'
import { tokenBatch } from './model/batch.js'
import type { LoraConfig } from './model/layout.js'
import { logProbabilityDrawn } from './model/sampling.js'
import type { ModelSource } from './model/source.js'
import type { TextTokenizer } from './model/tokenizer.js'
import { writeAdapter } from './model/writeHub.js'
import type { Policy, SampledMessage, SampleOptions } from './policy.js'

/** Whose messages the server writes. */
export interface Served {
  /** Unique among the agents. */
  readonly name: string
  /** What the server calls its base, by default. */
  readonly model: string
  readonly source: ModelSource
  readonly tokenizer: TextTokenizer
  readonly lora: LoraConfig
  /** Texts that end a message. */
  readonly stop: readonly string[]
}

/**
 * @param policy the agent's own
 * @param folder where its adapters are put for the server to load; default: a temporary one
 * @param onNotice is told once in a rollout of each way in which an attempt failed
 * @throws InputError at once for an URL that is none; from `sample` when the server cannot load adapters, refuses, or answers in another form
 */
export const servedPolicy = (policy: Policy, agent: Served, settings: ServerSettings, folder?: string, onNotice?: Notice): Policy => {
  const adapters = adapterLoader(agent, settings, folder)
  const url = endpoint(settings.url, 'completions')
  return {
    ...policy,
    sample: async (theta, prompts, options) => {
      // Many messages are asked for at once, and fail alike.
      const said = new Set<string>()
      const once = (text: string): void => {
        if (!said.has(text)) onNotice?.(text)
        said.add(text)
      }
      const model = await adapters(theta, once)
      const jobs = prompts.map((prompt) => ({ prompt, seed: options.random.int(2 ** 31) }))
      const tokens = await inParallel(jobs, settings.parallel, ({ prompt, seed }) => complete(url, model, prompt, seed, agent, { ...settings, onNotice: once }, options))
      return withLogProbs(policy, theta, prompts, tokens, options)
    },
  }
}

/** Has the server load an adapter for θ, if that is not the one it has. @returns gives what the server calls it */
const adapterLoader = ({ name, model, source, lora }: Served, settings: ServerSettings, folder?: string): ((theta: tf.Tensor1D, onNotice: Notice) => Promise<string>) => {
  const run = Date.now().toString(36)
  let current: { theta: tf.Tensor1D; called: string; at: string } | undefined
  let loads = 0
  return async (theta, onNotice) => {
    const asked = { ...settings, onNotice }
    if (current?.theta === theta) return current.called
    folder ??= mkdtempSync(join(tmpdir(), 'teamtr-served-'))
    const called = `teamtr-${run}-${name}-${++loads}`
    const at = join(resolve(folder), called)
    writeAdapter(at, source.config, { lora, values: (await theta.data()) as Float32Array }, settings.model ?? model)
    const path = settings.folder === undefined ? at : `${settings.folder.replace(/\/$/, '')}/${relative(resolve(folder), at)}`
    await ask(asked, 'load_lora_adapter', { lora_name: called, lora_path: path })
    const before = current
    current = { theta, called, at }
    if (before) {
      await ask(asked, 'unload_lora_adapter', { lora_name: before.called })
      rmSync(before.at, { recursive: true, force: true })
    }
    return called
  }
}

type Notice = (text: string) => void
type Asked = ServerSettings & { readonly onNotice: Notice }

const ask = async (settings: Asked, path: string, body: object): Promise<void> => {
  const url = endpoint(settings.url, path)
  const posted = await post(url, body, { ...optionsOf(settings) })
  if (!('error' in posted)) return
  const cannot = posted.status === 404 || posted.status === 405 || posted.status === 501
  throw new InputError(`${url}: ${posted.error}${cannot ? '; this server loads no adapters while it runs, which training needs (vLLM does, with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True)' : ''}`)
}

const optionsOf = ({ timeoutSeconds, onNotice }: Asked) => ({ timeoutSeconds, onNotice, apiKey: process.env.TEAMTR_SERVER_KEY })

const completion = z.object({
  choices: z.array(z.object({
    text: z.string(),
    finish_reason: z.string().nullish(),
    /** The text or token that ended it, where that was not the model's own end. */
    stop_reason: z.union([z.string(), z.number()]).nullish(),
    /** Where the server gives them (vLLM): what was sampled, token by token. */
    token_ids: z.array(z.int().min(0)).nullish(),
  })).length(1),
})

/** One message. @returns its tokens, what ended it included */
const complete = async (
  url: string, model: string, prompt: readonly number[], seed: number, { tokenizer, stop }: Served, settings: Asked,
  { maxTokens, temperature, topP, topK, endToken, stopTokens = [] }: SampleOptions,
): Promise<number[]> => {
  const posted = await post(url, {
    model, prompt, seed, temperature,
    max_tokens: maxTokens,
    ...(topP !== undefined && topP < 1 && { top_p: topP }),
    ...(topK !== undefined && { top_k: topK }),
    ...(stop.length > 0 && { stop, include_stop_str_in_output: true }),
    stop_token_ids: [endToken, ...stopTokens],
    return_token_ids: true,
  }, optionsOf(settings))
  if ('error' in posted) throw new InputError(`${url}: ${posted.error}`)
  try {
    const { choices: [{ text, token_ids: ids, finish_reason: finish, stop_reason: reason }] } = validate(completion, JSON.parse(posted.text), 'answer')
    // Without ids the text is written in the model's own tokens again: mostly, not always, those that were sampled.
    const tokens = ids ?? tokenizer.encode(text)
    const unknown = tokens.find((token) => token >= tokenizer.vocabulary)
    if (unknown !== undefined) throw new InputError(`token ${unknown} is not one of the ${tokenizer.vocabulary} of the tokenizer here: it serves another model`)
    const ended = [endToken, ...stopTokens].includes(tokens.at(-1) ?? -1) || firstStop(tokenizer.decode(tokens), stop) >= 0
    const ends = finish === 'stop' && !ended ? (typeof reason === 'string' ? tokenizer.encode(reason) : [endToken]) : []
    const all = [...tokens, ...ends].slice(0, maxTokens)
    return all.length > 0 ? all : [endToken]
  } catch (error) {
    throw new InputError(`${url}: answers something else than the completion that was asked for: ${messageOf(error)} (${show(posted.text)})`)
  }
}

/** Marked tokens' log-probabilities that are computed at once, in tokens read. */
const PASS = 2048

/** What was sampled, with its log-probabilities under θ as they are computed here. */
const withLogProbs = async (
  policy: Policy, theta: tf.Tensor1D, prompts: readonly (readonly number[])[], tokens: readonly (readonly number[])[], options: SampleOptions,
): Promise<SampledMessage[]> => {
  const { temperature, topP = 1, topK = Infinity } = options
  const leavesOut = topP < 1 || topK < policy.vocabulary
  const messages: SampledMessage[] = []
  for (let from = 0; from < prompts.length;) {
    let [to, longest] = [from, 0]
    do longest = Math.max(longest, prompts[to].length + tokens[to].length)
    while (++to < prompts.length && (to + 1 - from) * Math.max(longest, prompts[to].length + tokens[to].length) <= PASS)
    const part = prompts.slice(from, to).map((prompt, i) => ({ ids: [...prompt, ...tokens[from + i]], marked: [[prompt.length, prompt.length + tokens[from + i].length]] as [number, number][] }))
    const batch = tokenBatch(part)
    const values = tf.tidy(() => ({
      own: policy.logProbs(theta, batch),
      tempered: temperature === 1 || temperature === 0 || leavesOut ? undefined : policy.logProbs(theta, batch, { temperature }),
      whole: leavesOut && temperature > 0 ? policy.logDistributions(theta, batch) : undefined,
    }))
    const read = async (tensor: tf.Tensor | undefined) => (await tensor?.data()) as Float32Array | undefined
    const [own, tempered, rows] = [(await read(values.own))!, await read(values.tempered), await read(values.whole)]
    tf.dispose([batch, values])
    let at = 0
    for (const message of tokens.slice(from, to)) {
      const drawn = (token: number, u: number): number => {
        if (temperature === 0) return 0
        if (!rows) return (tempered ?? own)[at + u]
        return logProbabilityDrawn(rows.subarray((at + u) * policy.vocabulary, (at + u + 1) * policy.vocabulary), token, options)
      }
      messages.push({ tokens: message, logProbs: Array.from(own.subarray(at, at + message.length)), samplingLogProbs: message.map(drawn) })
      at += message.length
    }
    from = to
  }
  return messages
}

/** At most `width` at a time; results in order. The first failure ends it. */
const inParallel = async <T, R>(items: readonly T[], width: number, f: (item: T) => Promise<R>): Promise<R[]> => {
  const results: R[] = []
  let next = 0
  const work = async (): Promise<void> => {
    while (next < items.length) {
      const i = next++
      results[i] = await f(items[i])
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, work))
  return results
}
