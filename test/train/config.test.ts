import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/train/config.js'
import { methodNames, methods } from '../../src/train/methods.js'
import { readConfig } from '../../src/util/files.js'

const message = (value: unknown): string => {
  try {
    parseConfig(value, 'run.yaml')
    return 'accepted'
  } catch (error) {
    return (error as Error).message
  }
}

describe('parseConfig', () => {
  it('makes a complete configuration of nothing', () => {
    const config = parseConfig(undefined)
    expect(config).toMatchObject({
      task: { name: 'relay', modulus: 10 },
      team: { agents: 3, router: [0, 1, 2] },
      method: { name: 'teamtr', occupancy: 'intermediate', acceptance: 'scale' },
      gamma: 1 - 1 / 3,
      rollout: { maxTokens: 2 },
      trustRegion: { delta: [0.02, 0.02, 0.02] },
    })
  })

  it('gives itself back: a complete configuration is a configuration', () => {
    const other = { task: { name: 'guessing' }, team: { agents: 4 }, method: { name: 'stale', acceptance: 'none' }, order: [3, 0, 1, 2] }
    const models = { team: { agents: [{ model: 'a', role: 'You add.' }, { model: 'b' }] }, lora: { targets: 'all-linear' }, rollout: { server: { url: 'http://localhost/v1' } } }
    for (const value of [{}, other, models, { team: models.team, tuning: 'full' }]) {
      const config = parseConfig(value)
      expect(parseConfig(JSON.parse(JSON.stringify(config)))).toEqual(config)
    }
  })

  it('takes a method by name, or its settings one by one', () => {
    expect(parseConfig({ method: 'stale' }).method).toEqual({
      name: 'stale', occupancy: 'stale', resampleEvery: 1, correction: 'none', update: 'sequential', acceptance: 'scale',
    })
    const { method } = parseConfig({ method: { acceptance: 'none' } })
    expect(method).toMatchObject({ name: 'teamtr', occupancy: 'intermediate', acceptance: 'none' })
  })

  it('has defaults of their own for language models, PEFT’s where PEFT has them', () => {
    expect(parseConfig({ team: { agents: [{ model: 'a' }, { model: 'a' }] } })).toMatchObject({
      team: { agents: 2, members: [{ model: 'a' }, { model: 'a' }], router: [0, 1] },
      tuning: 'lora',
      lora: { rank: 8, alpha: 8, targets: ['q_proj', 'v_proj'], dropout: 0 },
      protocol: { taskRole: true, ownRole: true, chatTemplate: true, thinking: 'strip', thinkingTags: ['<think>', '</think>'], stop: [] },
      warmup: { steps: 0 },
      rollout: { maxTokens: 16, batch: 64, server: null },
      objective: { microTokens: 256 },
    })
    expect(parseConfig({})).toMatchObject({ tuning: 'full', lora: null, protocol: null, warmup: { steps: 400 }, objective: { microTokens: null } })
  })

  it.each([
    [{ trustregion: {} }, 'run.yaml: unknown key "trustregion" (did you mean "trustRegion"?)'],
    [{ rollout: { promts: 3 } }, 'run.yaml: rollout: unknown key "promts" (did you mean "prompts"?)'],
    [{ task: { name: 'relay', modulos: 7 } }, 'run.yaml: task: unknown key "modulos"'],
    [{ stages: 'ten' }, 'run.yaml: stages: holds "ten"; expected number, received string'],
    [{ trustRegion: { delta: 0 } }, 'run.yaml: trustRegion.delta: holds 0; Too small: expected number to be >0'],
    [{ trustRegion: { delta: [0.02, -1, 0.02] } }, 'run.yaml: trustRegion.delta[1]: holds -1; '],
    [{ trustRegion: { delta: [0.02, 0.01] } }, 'run.yaml: trustRegion.delta: holds [0.02,0.01]; expected 3 values'],
    [{ gamma: 1 }, 'run.yaml: gamma: holds 1; '],
    [{ order: [0, 1, 1] }, 'run.yaml: order: holds [0,1,1]; expected a permutation of the agents 0 to 2'],
    [{ order: [0, 1] }, 'run.yaml: order: holds [0,1]; expected a permutation'],
    [{ order: 'randm' }, 'run.yaml: order: holds "randm"; expected fixed, reversed, random, or a permutation of the agents'],
    [{ method: 'trpo' }, 'run.yaml: method: holds "trpo"; expected one of teamtr, stale'],
    [{ team: { router: [0, 3] } }, 'run.yaml: team.router[1]: holds 3; expected an agent, 0 to 2'],
    [{ team: { agents: [] } }, 'run.yaml: team.agents: holds []; '],
    [{ team: { agents: [{ modle: 'a' }] } }, 'run.yaml: team.agents[0].model: missing; '],
    [{ team: { agents: 3, members: [{ model: 'a' }] } }, 'run.yaml: team.agents: holds 3; expected 1, as many as team.members'],
    [{ lora: {} }, '; it belongs to language models, and team.agents names none'],
    [{ task: { name: 'benchmark', benchmark: 'math500', file: 'x' } }, 'run.yaml: task.name: holds "benchmark"; it belongs to language models'],
    [{ team: { agents: [{ model: 'a' }] }, warmup: { steps: 9 } }, 'run.yaml: warmup.steps: holds 9; language models are not warmed up'],
    [{ team: { agents: [{ model: 'a' }] }, lora: { targets: ['query'] } }, 'run.yaml: lora.targets[0]: holds "query"; '],
    [{ team: { agents: [{ model: 'a' }] }, tuning: 'full', lora: { rank: 2 } }, 'run.yaml: lora: holds {"rank":2,'],
    [{ rollout: { topP: 0.9 }, trustRegion: { estimator: 'lowVariance' } }, 'run.yaml: trustRegion.estimator: holds "lowVariance"; with rollout.topP only exact is right'],
    [{ rollout: { topK: 5 }, trustRegion: { estimator: 'plain' } }, 'run.yaml: trustRegion.estimator: holds "plain"; with rollout.topK only exact'],
    [{ rollout: { topP: 0.9 }, method: 'happo' }, 'run.yaml: method.correction: holds "compound"; with rollout.topP only none is right: probability ratios are'],
    [{ rollout: { topK: 5 }, method: 'importance' }, 'run.yaml: method.correction: holds "importance"; with rollout.topK only none is right'],
    [{ rollout: { topP: 0.9 }, method: 'joint' }, 'run.yaml: method.update: holds "joint"; with rollout.topP only sequential is right'],
    [{ rollout: { topK: 5 }, diagnostics: { every: 2 } }, 'run.yaml: diagnostics.every: holds 2; with rollout.topK only 0 is right'],
    [{ rollout: { topK: 5 }, start: { run: 'before', agent: 0 } }, 'run.yaml: rollout.topK: holds 5; with start expected null: a swap is aligned'],
    [{ method: 'grpo', objective: { estimator: 'plain' } }, 'run.yaml: objective.estimator: holds "plain"; with objective.reference: initial expected exact or lowVariance; '],
    [{ objective: { reference: 'initial' }, trustRegion: { estimator: 'plain' } }, 'run.yaml: objective.estimator: holds "plain"; with objective.reference: initial'],
    [{ model: { hidden: 30 } }, 'run.yaml: model.hidden: holds 30; expected a multiple of 2 · heads, 8'],
    [{ model: { hidden: 1_000_000, heads: 2 } }, 'run.yaml: model.hidden: holds 1000000; Too big: expected number to be <=65536'],
    [{ model: { layers: 1025 } }, 'run.yaml: model.layers: holds 1025; Too big: expected number to be <=1024'],
    [{ model: { heads: 2048, hidden: 4096 } }, 'run.yaml: model.heads: holds 2048; Too big: expected number to be <=1024'],
    [{ model: { kvHeads: 2048 } }, 'run.yaml: model.kvHeads: holds 2048; Too big: '],
    [{ critic: { hidden: 1_000_000 } }, 'run.yaml: critic.hidden: holds 1000000; Too big: '],
    [{ model: { kvHeads: 3 } }, 'run.yaml: model.kvHeads: holds 3; expected a divisor of heads, 4'],
    [{ task: { name: 'chess' } }, 'run.yaml: task.name: holds "chess"; expected relay, guessing or benchmark'],
    [{ trustRegion: { adaptive: { factor: 2, min: 0.1, max: 1 } } }, 'run.yaml: trustRegion.delta: holds 0.02; with trustRegion.adaptive expected 0.1 to 1, its min and max'],
    [{ trustRegion: { delta: [0.02, 0.5, 0.02], adaptive: { factor: 2, min: 0.01, max: 0.1 } } }, 'run.yaml: trustRegion.delta: holds 0.5; with trustRegion.adaptive expected 0.01 to 0.1'],
    [{ trustRegion: { adaptive: { factor: 2, min: 0.1, max: 0.01 } } }, 'run.yaml: trustRegion.adaptive.min: holds 0.1; expected at most max, 0.01'],
    [{ trustRegion: { delta: 'small' } }, 'run.yaml: trustRegion.delta: holds "small"; expected a number above 0, or one for each agent'],
    [[1], 'run.yaml: holds [1]; expected object'],
  ])('%j is refused in one line', (value, expected) => {
    expect(message(value)).toContain(expected)
    expect(message(value)).not.toContain('\n')
  })

  const configs = fileURLToPath(new URL('../../configs/', import.meta.url))
  it.each(readdirSync(configs).filter((name) => name.endsWith('.yaml')))('configs/%s can be trained', (name) => {
    expect(parseConfig(readConfig(configs + name), name).stages).toBeGreaterThan(0)
  })

  it('configs/relay-3.yaml shows defaults as they are', () => {
    expect(parseConfig(readConfig(`${configs}relay-3.yaml`))).toEqual(parseConfig({}))
  })
})

describe('methods', () => {
  it.each(methodNames)('%s is a complete configuration, which gives itself back', (name) => {
    const config = parseConfig({ method: name })
    expect(config.method.name).toBe(name)
    expect(parseConfig(JSON.parse(JSON.stringify(config)))).toEqual(config)
    expect(methods[name].about).toMatch(/^[^\n]{10,120}$/)
  })

  it('bring defaults for other sections, beneath what the user says', () => {
    const { objective, trustRegion, advantage } = parseConfig({ method: 'grpo' })
    expect(objective).toMatchObject({ ratio: 'token', average: 'message', estimator: 'lowVariance', clip: { low: 0.2, high: 0.2 } })
    expect(trustRegion).toMatchObject({ estimator: 'exact', beta: { initial: 0.04, factor: 1 } })
    expect(advantage.clip).toBe(null)
    const own = parseConfig({ method: { name: 'dapo', acceptance: 'refuse' }, objective: { clip: 0.1 }, trustRegion: { beta: { initial: 2 } }, advantage: { clip: 3 } })
    expect(own.objective).toMatchObject({ clip: { low: 0.1, high: 0.1 }, average: 'token' })
    expect(own.trustRegion.beta).toMatchObject({ initial: 2, factor: 1, min: 0 })
    expect(own.method).toMatchObject({ name: 'dapo', acceptance: 'refuse', occupancy: 'stale' })
    expect(own.advantage.clip).toBe(3)
  })

  it('find what is wrong beside them in what the user wrote', () => {
    expect(message({ method: 'dapo', objective: 7 })).toBe('run.yaml: objective: holds 7; expected object, received number')
    expect(message({ method: 'dapo', objective: { clipp: 1 } })).toContain('objective: unknown key "clipp" (did you mean "clip"?)')
    expect(message({ method: 'constructor' })).toContain('method: holds "constructor"; expected one of teamtr')
  })
})
