import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { loadModel, type LanguageModel } from '../../src/train/languageModel.js'
import type { SampledMessage } from '../../src/train/policy.js'
import { runTraining } from '../../src/train/run.js'
import { startTeam } from '../../src/train/startTeam.js'
import { disposeTeam } from '../../src/train/team.js'
import { random } from '../../src/util/random.js'
import { sharedPath } from '../shared.js'
import { speaking } from './speaking.js'

const models = sharedPath('models')
const folder = mkdtempSync(join(tmpdir(), 'teamtr-served-test-'))
beforeAll(() => initEngine())
afterAll(() => rmSync(folder, { recursive: true }))

interface Answered {
  readonly model: string
  readonly prompt: readonly number[]
  readonly sampled: SampledMessage
}

const servers: { server: Server; loaded: Map<string, LanguageModel> }[] = []
afterEach(() => {
  for (const { server, loaded } of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
    loaded.forEach((model) => model.dispose())
  }
})

/** A server that generates with adapters it has been given, as vLLM answers. @param gives what of an answer it knows how to give */
const serve = async (gives: { ids?: boolean; adapters?: boolean; vocabulary?: number } = {}) => {
  const { ids = true, adapters = true } = gives
  const loaded = new Map<string, LanguageModel>()
  const log = { loads: [] as string[], unloads: [] as string[], answered: [] as Answered[] }
  const answer = async (path: string, body: Record<string, unknown>): Promise<[number, unknown]> => {
    if (path === '/v1/completions') {
      const model = loaded.get(body.model as string)
      if (!model) return [404, `no model ${String(body.model)}`]
      const { endToken, stopTokens } = model.tokenizer
      const prompt = body.prompt as number[]
      const [sampled] = await model.policy.sample(model.theta, [prompt], {
        maxTokens: body.max_tokens as number, temperature: body.temperature as number, topP: body.top_p as number | undefined, topK: body.top_k as number | undefined,
        random: random(body.seed as number), endToken, stopTokens,
      })
      log.answered.push({ model: body.model as string, prompt, sampled })
      const ended = stopTokens.includes(sampled.tokens.at(-1)!)
      const text = model.tokenizer.decode(ended ? sampled.tokens.slice(0, -1) : sampled.tokens)
      return [200, { choices: [{ index: 0, text, finish_reason: ended ? 'stop' : 'length', ...(ids && body.return_token_ids === true && { token_ids: sampled.tokens }) }] }]
    }
    if (!adapters) return [404, 'Not Found']
    const name = body.lora_name as string
    if (path === '/v1/load_lora_adapter') {
      const at = body.lora_path as string
      const { base_model_name_or_path: base } = JSON.parse(readFileSync(join(at, 'adapter_config.json'), 'utf8')) as { base_model_name_or_path: string }
      loaded.set(name, loadModel(base, at))
      log.loads.push(name)
      return [200, `Success: LoRA adapter '${name}' added successfully.`]
    }
    loaded.get(name)?.dispose()
    log.unloads.push(name)
    return [loaded.delete(name) ? 200 : 400, name]
  }
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => void answer(request.url!, JSON.parse(body) as Record<string, unknown>).then(([status, content]) =>
      response.writeHead(status).end(typeof content === 'string' ? content : JSON.stringify(content))))
  })
  servers.push({ server, loaded })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, log }
}

const config = (url: string, more: ConfigInput = {}) => parseConfig({
  task: { name: 'relay', modulus: 3 },
  team: { agents: ['tiny-llama', 'tiny-qwen3'].map((name) => ({ model: join(models!, name) })) },
  protocol: { taskRole: false },
  lora: { rank: 4, alpha: 8, targets: 'all-linear' },
  stages: 1,
  objective: { learningRate: 5e-3 },
  evaluation: { problems: 2 },
  ...more,
  rollout: { prompts: 4, group: 8, maxTokens: 2, server: { url, timeoutSeconds: 20 }, ...more.rollout },
})

describe.skipIf(!models)('rollouts from a server', () => {
  it('train a team: adapters are loaded when they have changed, and say there what they say here', async () => {
    const { url, log } = await serve()
    const base = await speaking(config(url), join(folder, 'run'))
    const { team, updates, finished } = await runTraining(config(url), { folder: join(folder, 'run'), engine: 'test', base })
    expect(finished).toBe(true)
    const changed = updates.filter(({ outcome }) => outcome === 'accepted' || outcome === 'scaled').length
    expect(changed).toBeGreaterThan(0)
    expect(log.loads).toHaveLength(2 + changed)
    expect(new Set(log.loads).size).toBe(log.loads.length)
    expect(log.unloads).toHaveLength(changed)
    expect(readdirSync(join(folder, 'run', 'served')).sort()).toEqual(log.loads.filter((name) => !log.unloads.includes(name)).sort())

    // What was trained on is what the server sampled, with the log-probabilities of the very adapter that it sampled from.
    const checkpoint = JSON.parse(readFileSync(join(folder, 'run', 'checkpoints', '000002', 'state.json'), 'utf8')) as
      { state: { rollouts: { episodes: { messages: { prompt: number[]; tokens: number[]; logProbs: number[] }[] }[] } } }
    const said = checkpoint.state.rollouts.episodes.flatMap(({ messages }) => messages)
    expect(said).toHaveLength(4 * 8 * 2)
    for (const { prompt, tokens, logProbs } of said) {
      const found = log.answered.find(({ prompt: asked, sampled }) => asked.join() === prompt.join() && sampled.tokens.join() === tokens.join() && near(sampled.logProbs, logProbs))
      expect(found).toBeDefined()
    }
    disposeTeam(team)
    disposeTeam(base)
  }, 60_000)

  it('are the same from a server that gives text alone, where text has one spelling', async () => {
    const sampled = async (ids: boolean): Promise<string[]> => {
      const { url } = await serve({ ids })
      const team = await startTeam(config(url), { folder: join(folder, `text-${String(ids)}`) })
      const { policy, theta, voice } = team.agents[0]
      const prompts = Array.from({ length: 20 }, (_, i) => [5 + i, 6])
      const messages = await policy.sample(theta, prompts, { maxTokens: 2, temperature: 1, endToken: voice.endToken, stopTokens: voice.stopTokens, random: random(4) })
      disposeTeam(team)
      return messages.map(({ tokens }) => voice.text(tokens))
    }
    const [withIds, withText] = [await sampled(true), await sampled(false)]
    const clean = withIds.map((text, i) => [text, withText[i]]).filter(([text]) => !text.includes('\ufffd'))
    expect(clean.length).toBeGreaterThan(0)
    for (const [one, other] of clean) expect(other).toBe(one)
  })

  it('have the sampling log-probabilities of temperature, top-k and top-p', async () => {
    const { url, log } = await serve()
    const team = await startTeam(config(url), { folder: join(folder, 'sampling') })
    const before = tf.memory().numTensors
    const { policy, theta, voice } = team.agents[1]
    for (const how of [{ temperature: 0.7 }, { temperature: 1, topK: 5 }, { temperature: 1.5, topP: 0.6 }, { temperature: 0 }]) {
      log.answered.length = 0
      const messages = await policy.sample(theta, [[5, 6, 7], [40, 41]], { ...how, maxTokens: 4, endToken: voice.endToken, stopTokens: voice.stopTokens, random: random(2) })
      for (const { tokens, logProbs, samplingLogProbs } of messages) {
        const there = log.answered.map(({ sampled }) => sampled).find((sampled) => sampled.tokens.join() === tokens.join())!
        expect(near(there.logProbs, logProbs)).toBe(true)
        expect(near(there.samplingLogProbs, samplingLogProbs)).toBe(true)
      }
    }
    // The server here holds tensors of its own: only what the policy left behind would be new beside them.
    const served = servers[0].loaded.size
    expect(served).toBe(1)
    expect(tf.memory().numTensors - before).toBe(tensorsOf(servers[0].loaded))
    disposeTeam(team)
  })

  it('end in one line where the server loads no adapters, or is another one', async () => {
    const { url } = await serve({ adapters: false })
    const at = join(folder, 'none')
    await expect(runTraining(config(url), { folder: at, engine: 'test' })).rejects.toThrow(/load_lora_adapter: answers 404: "Not Found"; this server loads no adapters while it runs/)
    expect(existsSync(at)).toBe(false)
    await expect(startTeam(config('ftp://x'))).rejects.toThrow(/base URL: holds "ftp:/)
  })
})

const near = (a: readonly number[], b: readonly number[]): boolean => a.length === b.length && a.every((value, u) => Math.abs(value - b[u]) < 1e-4)
const tensorsOf = (loaded: Map<string, LanguageModel>): number => [...loaded.values()].reduce((sum, { weights }) => sum + Object.keys(weights).length + 1, 0)
