import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { validate } from '../../src/util/validate.js'

const schema = z.strictObject({
  gamma: z.number().gt(0).lt(1).default(0.9),
  agents: z.array(z.strictObject({ model: z.string() })).default([]),
})
const message = (value: unknown): string => {
  try {
    validate(schema, value, 'team.json')
    return 'accepted'
  } catch (error) {
    return (error as Error).message
  }
}

describe('validate', () => {
  it('fills defaults', () => expect(validate(schema, {}, 'x')).toEqual({ gamma: 0.9, agents: [] }))
  it('names file, field and value', () => expect(message({ gamma: 1.5 })).toMatch(/^team\.json: gamma: holds 1\.5; /))
  it('names a nested field', () => expect(message({ agents: [{ model: 'a' }, {}] })).toMatch(/^team\.json: agents\[1\]\.model: missing/))
  it('names the nearest known key', () => {
    expect(message({ gama: 0.5 })).toBe('team.json: unknown key "gama" (did you mean "gamma"?)')
    expect(message({ agents: [{ model: 'a', modle: 1 }] })).toBe('team.json: agents[0]: unknown key "modle" (did you mean "model"?)')
  })

  it('names known keys where there are several forms', () => {
    const server = z.strictObject({ url: z.string(), timeoutSeconds: z.number().optional() })
    const task = z.discriminatedUnion('name', [z.strictObject({ name: z.literal('a'), digits: z.number() }), z.strictObject({ name: z.literal('b'), file: z.string() })])
    const forms = z.strictObject({ server: z.union([server, z.array(server)]).nullable(), task })
    const said = (value: object): string => {
      try {
        return String(validate(forms, { server: null, task: { name: 'a', digits: 1 }, ...value }, 'x'))
      } catch (error) {
        return (error as Error).message
      }
    }
    expect(said({ server: { url: 'u', timeoutSecond: 1 } })).toBe('x: server: unknown key "timeoutSecond" (did you mean "timeoutSeconds"?)')
    expect(said({ server: [{ url: 'u', key: 1 }] })).toBe('x: server[0]: unknown key "key" (known: url, timeoutSeconds)')
    expect(said({ task: { name: 'a', digits: 1, file: 'f' } })).toBe('x: task: unknown key "file" (known: name, digits)')
  })
})
