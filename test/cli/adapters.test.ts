import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { addAdapters } from '../../src/cli/adapters.js'
import { addLogits } from '../../src/cli/logits.js'
import { addTrain } from '../../src/cli/train.js'
import { readTeamFile } from '../../src/train/teamFile.js'
import { sharedPath } from '../shared.js'

const models = sharedPath('models')
const folder = mkdtempSync(join(tmpdir(), 'teamtr-adapters-'))
const at = (name: string): string => join(folder, name)
afterAll(() => rmSync(folder, { recursive: true }))
afterEach(() => void vi.restoreAllMocks())

const run = async (...args: string[]): Promise<string> => {
  let out = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => ((out += String(text)), true))
  vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
  const program = new Command().exitOverride()
  for (const add of [addAdapters, addLogits, addTrain]) add(program)
  program.commands.forEach((command) => command.exitOverride())
  await program.parseAsync(args, { from: 'user' })
  return out
}

interface Expected {
  adapter: { prompts: { ids: number[]; next_logprobs: number[]; last_logits: number[] }[] }
}

test.skipIf(!models)('a team file is trained, its adapters come out, and `logits` computes with them what transformers does', async () => {
  const names = ['tiny-qwen3', 'tiny-llama']
  const agents = names.map((name) => ({ model: join(models!, name), adapter: join(models!, name, 'adapter'), name }))
  writeFileSync(at('team.json'), JSON.stringify({ agents }))
  writeFileSync(at('config.yaml'), 'team: {file: team.json}\nevaluation: {problems: 2}\nrollout: {prompts: 1, group: 2, maxTokens: 2}\n')
  await run('train', at('config.yaml'), '--out', at('run'), '--stages', '0', '--json')
  const written = (await run('adapters', at('run'), '--out', at('out'))).trim()
  expect(written).toBe(at('out/team.json'))
  for (const [i, { model, adapter, name }] of readTeamFile(written).agents.entries()) {
    expect([model, name]).toEqual([agents[i].model, names[i]])
    const { adapter: { prompts } } = JSON.parse(readFileSync(join(model, 'expected.json'), 'utf8')) as Expected
    for (const from of [adapter!, at(`run/adapters/agent-${i}`)]) {
      const { ids, next_logprobs, last_logits } = prompts[0]
      const got = JSON.parse(await run('logits', '--model', model, '--adapter', from, '--ids', ids.join(), '--json')) as Expected['adapter']['prompts'][number]
      next_logprobs.forEach((value, u) => expect(Math.abs(got.next_logprobs[u] - value)).toBeLessThan(2e-4))
      last_logits.forEach((value, v) => expect(Math.abs(got.last_logits[v] - value)).toBeLessThan(2e-4))
    }
  }
})

test.skipIf(!models)('wrong input is one line, and writes nothing', async () => {
  await expect(run('adapters', at('nowhere'), '--out', at('a'))).rejects.toThrow(/nowhere.*no such file/)
  await expect(run('adapters', at('run'), '--out', at('a'), '--checkpoint', '7')).rejects.toThrow(/run: holds the checkpoints 0$/)
  writeFileSync(at('bad.yaml'), `team: {agents: [{model: ${join(models!, 'tiny-llama')}, adapter: ${join(models!, 'tiny-qwen3/adapter')}}]}\n`)
  await expect(run('train', at('bad.yaml'), '--out', at('bad'))).rejects.toThrow(/tensor/)
  expect([existsSync(at('a')), existsSync(at('bad'))]).toEqual([false, false])
  writeFileSync(at('small.yaml'), 'model: {layers: 1, hidden: 16, heads: 2, intermediate: 16}\nwarmup: {steps: 1, episodes: 2}\nrollout: {prompts: 1, group: 2}\nevaluation: {problems: 2}\nstages: 0\n')
  await run('train', at('small.yaml'), '--out', at('small'))
  await expect(run('adapters', at('small'), '--out', at('b'))).rejects.toThrow(/trained from scratch; only language models have adapters/)
})
