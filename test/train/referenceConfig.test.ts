import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { configSchema, parseConfig } from '../../src/train/config.js'

const text = readFileSync(fileURLToPath(new URL('../../configs/reference-language.yaml', import.meta.url)), 'utf8')
const plain = parse(text) as { team: { agents: object[] }; rollout: object }

/** What only decoders from scratch have. */
const others = ['team.models', 'model', 'warmup', 'start']

const fields = (schema: unknown, path = ''): string[] => {
  if (schema instanceof z.ZodObject) {
    return Object.entries(schema.shape).flatMap(([key, inner]) => {
      const at = path ? `${path}.${key}` : key
      return others.includes(at) ? [] : [at, ...fields(inner, at)]
    })
  }
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => fields(option, path))
  if (schema instanceof z.ZodArray) return fields(schema.element, path)
  if (schema instanceof z.ZodPipe) return fields(schema.in, path)
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodNullable) {
    return fields(schema.unwrap(), path)
  }
  return []
}

it('the reference of language models holds every field', () => {
  const all = fields(configSchema)
  expect(all).toEqual(expect.arrayContaining(['rollout.server.timeoutSeconds', 'task.judge', 'team.agents.role', 'lora.targets', 'method.occupancy', 'trustRegion.beta.max']))
  for (const field of all) expect(text, field).toMatch(new RegExp(`\\b${field.split('.').at(-1)}[:,}]`))
})

it('and the defaults, with which it says nothing that the empty configuration does not', () => {
  expect(parseConfig(plain)).toEqual(parseConfig({ team: { agents: plain.team.agents } }))
})

it('and other choices that are ones', () => {
  const blocks = text.split(/^(?!#\| {2})/m).filter((block) => block.startsWith('#| ')).map((block) => block.replace(/^#\| /gm, ''))
  expect(blocks.map((block) => block.split(':')[0])).toEqual(['task', 'task', 'method', 'rollout'])
  for (const block of blocks) {
    const choice = parse(block) as object
    expect(parseConfig({ team: plain.team, ...choice })).toMatchObject('rollout' in choice || 'method' in choice ? {} : choice)
  }
})
