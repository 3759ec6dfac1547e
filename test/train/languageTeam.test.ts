import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { initEngine, tf } from '../../src/train/backend.js'
import { parseConfig, type ConfigInput } from '../../src/train/config.js'
import { loadModel } from '../../src/train/languageModel.js'
import { tokenBatch } from '../../src/train/model/batch.js'
import { runTraining, type RunOptions } from '../../src/train/run.js'
import { startTeam } from '../../src/train/startTeam.js'
import { disposeTeam, type Team } from '../../src/train/team.js'
import { readTeamFile } from '../../src/train/teamFile.js'
import { sharedPath } from '../shared.js'
import { speaking } from './speaking.js'

const models = sharedPath('models')
const folder = mkdtempSync(join(tmpdir(), 'teamtr-language-'))
const at = (name: string): string => join(folder, name)
beforeAll(() => initEngine())
afterAll(() => rmSync(folder, { recursive: true }))

const model = (name: string): string => join(models!, name)
const config = (more: ConfigInput = {}) => parseConfig({
  task: { name: 'relay', modulus: 3 },
  team: { agents: [{ model: model('tiny-llama'), role: 'Add.' }, { model: model('tiny-qwen3'), adapter: model('tiny-qwen3/adapter') }] },
  protocol: { taskRole: false },
  lora: { rank: 4, alpha: 8, targets: 'all-linear' },
  stages: 2,
  rollout: { prompts: 4, group: 8, maxTokens: 2 },
  objective: { learningRate: 5e-3, microTokens: 1024 },
  evaluation: { problems: 2, every: 1 },
  ...more,
})

const run = async (name: string, more?: ConfigInput, options: Partial<RunOptions> = {}) =>
  runTraining(options.resume ? undefined : config(more), { folder: at(name), engine: 'test', ...options })
const log = (name: string): string => readFileSync(join(at(name), 'log.jsonl'), 'utf8').replace(/,"seconds":\{[^}]*\}\}$/gm, '')

const logProbs = async ({ policy, theta }: Pick<Team['agents'][number], 'policy' | 'theta'>, ids: number[]): Promise<number[]> => {
  const batch = tokenBatch([{ ids, marked: [[1, ids.length]] }])
  const values = tf.tidy(() => policy.logProbs(theta, batch))
  const read = [...await values.data()]
  tf.dispose([values, batch])
  return read
}

describe.skipIf(!models)('a team of two models with two tokenizers', () => {
  let trained: Awaited<ReturnType<typeof run>>
  let base: Team
  beforeAll(async () => {
    base = await speaking(config())
    trained = await run('whole', {}, { base })
  }, 60_000)
  afterAll(() => {
    disposeTeam(trained.team)
    disposeTeam(base)
  })

  it('trains inside its trust regions', () => {
    const { updates, evaluations, finished } = trained
    expect(finished).toBe(true)
    expect(updates.map(({ agent }) => agent)).toEqual([0, 1, 0, 1])
    expect(updates.filter(({ outcome }) => outcome === 'accepted' || outcome === 'scaled').length).toBeGreaterThanOrEqual(3)
    for (const { kl, delta, divergence } of updates) {
      expect(kl).toBeLessThanOrEqual(delta)
      expect(divergence.exact!.message).toBeCloseTo(kl, 6)
    }
    expect(evaluations.map(({ stage }) => stage)).toEqual([0, 1, 2])
    expect(trained.team.agents.map(({ policy }) => policy.vocabulary)).toEqual([384, 420])
  })

  it('keeps adapters and their moments alone, and goes on as if it had not been stopped', async () => {
    for (const [i, { theta }] of trained.team.agents.entries()) {
      const bytes = readFileSync(join(at('whole'), 'checkpoints/000004', `agent-${i}.safetensors`)).length
      expect(bytes / (3 * 4 * theta.size)).toBeLessThan(1.5)
    }
    const stop = new AbortController()
    const first = await run('stopped', {}, { base, signal: stop.signal, onUpdate: ({ update }) => { if (update === 1) stop.abort() } })
    expect(first.finished).toBe(false)
    disposeTeam(first.team)
    const second = await run('stopped', undefined, { resume: true })
    expect(log('stopped')).toBe(log('whole'))
    for (const [i, { theta }] of second.team.agents.entries()) expect([...theta.dataSync()]).toEqual([...trained.team.agents[i].theta.dataSync()])
    disposeTeam(second.team)
  })

  it('is exported as PEFT folders and a team.json that give the same log-probabilities', async () => {
    const { agents } = readTeamFile(join(at('whole'), 'team.json'))
    expect(agents[0]).toMatchObject({ model: model('tiny-llama'), role: 'Add.' })
    const ids = [5, 40, 7, 300, 12]
    for (const [i, { model, adapter }] of agents.entries()) {
      const written = JSON.parse(readFileSync(join(adapter!, 'adapter_config.json'), 'utf8')) as Record<string, unknown>
      expect(written).toMatchObject({ peft_type: 'LORA', r: 4, lora_alpha: 8, base_model_name_or_path: model })
      const loaded = loadModel(model, adapter)
      const own = await logProbs(trained.team.agents[i], ids)
      ;(await logProbs(loaded, ids)).forEach((value, u) => expect(value).toBeCloseTo(own[u], 5))
      loaded.dispose()
      // And not those that it began with.
      const before = await logProbs(base.agents[i], ids)
      expect(Math.max(...before.map((value, u) => Math.abs(value - own[u])))).toBeGreaterThan(1e-4)
    }
  })

  it('with dropout, blocks computed again, top-p and several passes repeats itself, and is another run than without', async () => {
    const more: ConfigInput = {
      team: { agents: [{ model: model('tiny-llama') }] }, task: { name: 'relay', modulus: 3, rounds: 2 }, stages: 1,
      lora: { rank: 4, alpha: 8, targets: 'all-linear', dropout: 0.2 }, objective: { learningRate: 5e-3, recompute: true, microTokens: 256 },
      rollout: { prompts: 4, group: 8, maxTokens: 2, topP: 0.8, batch: 5 },
    }
    const begun = await speaking(config(more))
    for (const name of ['dropout-1', 'dropout-2']) disposeTeam((await run(name, more, { base: begun })).team)
    expect(log('dropout-1')).toBe(log('dropout-2'))
    const without = await speaking(config({ ...more, lora: { rank: 4, alpha: 8, targets: 'all-linear' } }))
    disposeTeam((await run('without', { ...more, lora: { rank: 4, alpha: 8, targets: 'all-linear' } }, { base: without })).team)
    expect(log('without')).not.toBe(log('dropout-1'))
    const { state } = JSON.parse(readFileSync(join(at('dropout-1'), 'checkpoints', '000001', 'state.json'), 'utf8')) as
      { state: { rollouts: { episodes: { messages: { logProbs: number[]; samplingLogProbs: number[] }[] }[] } } }
    const all = state.rollouts.episodes.flatMap(({ messages }) => messages)
    const gains = all.flatMap(({ logProbs, samplingLogProbs }) => samplingLogProbs.map((drawn, u) => drawn - logProbs[u]))
    expect(Math.min(...gains)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...gains)).toBeGreaterThan(0.01)
    disposeTeam(begun)
    disposeTeam(without)
  })

  it('leaves no tensor behind', async () => {
    const before = tf.memory().numTensors
    disposeTeam((await run('again', { stages: 1 }, { base })).team)
    expect(tf.memory().numTensors).toBe(before)
    disposeTeam((await run('own', { stages: 1 })).team)
    expect(tf.memory().numTensors).toBe(before)
  })

  it('goes on on no other model', async () => {
    cpSync(model('tiny-llama'), at('base'), { recursive: true })
    const team = { agents: [{ model: at('base') }, { model: model('tiny-qwen3') }] }
    disposeTeam((await run('changed', { team, stages: 1 })).team)
    const weights = readFileSync(join(at('base'), 'model.safetensors'))
    weights[weights.length - 1] ^= 1
    writeFileSync(join(at('base'), 'model.safetensors'), weights)
    const before = tf.memory().numTensors
    await expect(run('changed', undefined, { resume: true })).rejects.toThrow(/agents\[0\]: was trained on another model than what ".*base" holds now/)
    expect(tf.memory().numTensors).toBe(before)
    cpSync(join(model('tiny-llama'), 'model.safetensors'), join(at('base'), 'model.safetensors'))
    const tokenizer = join(at('base'), 'tokenizer_config.json')
    writeFileSync(tokenizer, JSON.stringify({ ...JSON.parse(readFileSync(tokenizer, 'utf8')) as object, chat_template: '{{ messages[0].content }}' }))
    await expect(run('changed', undefined, { resume: true })).rejects.toThrow(/agents\[0\]: was trained with another tokenizer than what ".*base" holds now .*: its tokenizer or chat template has changed$/)
  })

  it('writes nothing where a model cannot be opened', async () => {
    const team = { agents: [{ model: model('tiny-llama') }, { model: at('nowhere') }] }
    await expect(run('nothing', { team })).rejects.toThrow(/nowhere/)
    expect(() => readFileSync(join(at('nothing'), 'config.json'))).toThrow(/ENOENT/)
  })
})

describe.skipIf(!models)('an agent with an adapter of its own', () => {
  it('says what it goes on with, where lora says something else', async () => {
    const notices: string[] = []
    const own = (lora: ConfigInput['lora']) =>
      startTeam(config({ lora, team: { agents: [{ model: model('tiny-qwen3'), adapter: model('tiny-qwen3/adapter') }] } }), { onNotice: (text) => notices.push(text) })
    const team = await own({ rank: 16, alpha: 16 })
    const { rank, alpha } = team.agents[0].pretrained!.lora!
    expect(notices).toHaveLength(1)
    expect(notices[0]).toMatch(new RegExp(`^team\\.agents\\[0\\]\\.adapter: has rank ${rank}, alpha ${alpha}, targets .*; lora, rank 16, alpha 16, targets q_proj v_proj`))
    disposeTeam(team)
  })

  it('has a name that no other has', () => {
    const twice = [{ name: 'a', model: 'm' }, { model: 'm' }, { name: 'a', model: 'm' }]
    expect(() => parseConfig({ team: { agents: twice } })).toThrow('config: team.agents[2].name: holds "a"; agent 0 has that name already')
    expect(() => parseConfig({ team: { agents: [{ model: 'm', modle: 'm' } as never] } })).toThrow('config: team.agents[0]: unknown key "modle" (did you mean "model"?)')
  })
})

describe.skipIf(!models)('a run that cannot begin leaves nothing', () => {
  it.each<[string, ConfigInput, RegExp]>([
    ['no room for a message', { rollout: { maxTokens: 512 } }, /^rollout\.maxTokens: holds 512; agent 0 reads \d+ tokens before the shared context, and .*tiny-llama has 512 positions$/],
    ['a role too long', { team: { agents: [{ model: model('tiny-llama'), role: 'one two '.repeat(600) }] } }, /^team\.agents\[0\]\.role: fills \d+ tokens before the shared context, and .* has 512 positions$/],
    ['no room in the first rollout', { team: { agents: [{ model: model('tiny-llama') }] }, protocol: { taskRole: true }, rollout: { maxTokens: 465 } }, /the shared context has grown to/],
    ['a game without problems', { task: { name: 'guessing', digits: 1, alphabet: 2 } }, /^guessing: no \w+ code of 1 digits/],
  ])('%s', async (_, more, message) => {
    await expect(run('deep/er/never', more)).rejects.toThrow(message)
    expect(existsSync(at('deep'))).toBe(false)
  })

  it('but what else is there', async () => {
    mkdirSync(at('mine'))
    await expect(run('mine', { team: { agents: [{ model: model('tiny-llama') }] }, protocol: { taskRole: true }, rollout: { maxTokens: 465 } })).rejects.toThrow(/has grown/)
    expect(readdirSync(at('mine'))).toEqual([])
  })
})

describe.skipIf(!models)('startTeam', () => {
  it('has the weights of a base once, whatever its path is called', async () => {
    symlinkSync(model('tiny-qwen2'), at('link'))
    const start = tf.memory()
    const one = await startTeam(config({ team: { agents: [{ model: model('tiny-qwen2') }] } }))
    const alone = tf.memory().numBytes - start.numBytes
    const own = one.agents[0].theta.size * 3 * 4
    disposeTeam(one)
    const three = await startTeam(config({ team: { agents: [model('tiny-qwen2'), at('link'), `${models!}/../models/tiny-qwen2`].map((model) => ({ model })) } }))
    expect(tf.memory().numBytes - start.numBytes).toBe(alone + 2 * own)
    expect(new Set(three.agents.map(({ policy }) => policy)).size).toBe(1)
    disposeTeam(three)
    expect(tf.memory().numTensors).toBe(start.numTensors)
  })

  it('tunes whole models too: θ is the model, and a step of training changes it', async () => {
    const full: ConfigInput = { tuning: 'full', lora: null, team: { agents: [{ model: model('tiny-qwen2') }] }, stages: 1, objective: { learningRate: 1e-3 } }
    const begun = await speaking(config(full))
    const { team, updates } = await run('full', full, { base: begun })
    disposeTeam(begun)
    expect(updates[0].outcome).toMatch(/accepted|scaled/)
    const { agents: [{ model: written, adapter }] } = readTeamFile(join(at('full'), 'team.json'))
    expect(adapter).toBeUndefined()
    const loaded = loadModel(written)
    const ids = [5, 40, 7, 300, 12]
    const own = await logProbs(team.agents[0], ids)
    ;(await logProbs(loaded, ids)).forEach((value, u) => expect(value).toBeCloseTo(own[u], 5))
    loaded.dispose()
    const base = loadModel(model('tiny-qwen2'))
    expect(await logProbs(base, ids)).not.toEqual(own)
    base.dispose()
    disposeTeam(team)
  })
})
