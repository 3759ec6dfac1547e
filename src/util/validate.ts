import { closest, distance } from 'fastest-levenshtein'
import { z } from 'zod'
import { InputError } from './errors.js'

/**
 * Check `value` against a zod schema (use `z.strictObject`, so that unknown keys are found).
 *
 * @param where what the value came from, usually a file name: it opens the message
 * @throws InputError naming the first wrong field, what it holds and what would be right; for an unknown key, the nearest known one
 */
export const validate = <S extends z.ZodType>(schema: S, value: unknown, where: string): z.output<S> => {
  const result = schema.safeParse(value, { reportInput: true })
  if (result.success) return result.data
  throw new InputError(`${where}: ${describe(result.error.issues[0], schema)}`)
}

/** `agents[1].model` for ['agents', 1, 'model']. */
export const fieldName = (path: readonly PropertyKey[]): string =>
  path.reduce<string>((name, key) => (typeof key === 'number' ? `${name}[${key}]` : name ? `${name}.${String(key)}` : String(key)), '')

/** A value as it should appear in a message: JSON, cut at 60 characters. */
export const show = (value: unknown): string => {
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : json(value) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/** JSON of a value; what nests too deep to be written is named by its kind. */
const json = (value: unknown): string | undefined => {
  try {
    return JSON.stringify(value)
  } catch {
    return Array.isArray(value) ? 'a list' : typeof value
  }
}

/** ` (did you mean "gamma"?)` when a known name is near, else ''. */
export const didYouMean = (name: string, known: readonly string[]): string => {
  if (known.length === 0) return ''
  const nearest = closest(name, known as string[])
  return distance(name, nearest) <= Math.max(2, name.length / 3) ? ` (did you mean "${nearest}"?)` : ''
}

const describe = (issue: z.core.$ZodIssue, schema: z.ZodType): string => {
  const field = fieldName(issue.path)
  const at = field ? `${field}: ` : ''
  if (issue.code === 'unrecognized_keys') {
    const known = keysAt(schema, issue.path, issue.input)
    const key = issue.keys[0]
    const hint = didYouMean(key, known) || (known.length ? ` (known: ${known.join(', ')})` : '')
    return `${at}unknown key "${key}"${hint}`
  }
  if (issue.code === 'invalid_union' && issue.errors.length) {
    const depth = ({ path, code }: z.core.$ZodIssue): number => path.length + (code === 'unrecognized_keys' ? 0.5 : 0)
    const deepest = issue.errors.flat().reduce((a, b) => (depth(b) > depth(a) ? b : a), issue.errors.flat()[0])
    if (deepest && depth(deepest) > 0) return describe({ ...deepest, path: [...issue.path, ...deepest.path] } as z.core.$ZodIssue, schema)
  }
  const input = 'discriminator' in issue ? (issue.input as Record<string, unknown>)[issue.discriminator as string] : issue.input
  const holds = input === undefined ? 'missing' : `holds ${show(input)}`
  const right = issue.message.replace(/^Invalid input: /, '').replace('expected nonoptional, received undefined', 'it is needed')
  return `${at}${holds}; ${right}`
}

/** The known keys of the object that `path` leads to inside `schema`; where there are several forms of it, of those that `holds` may be. */
const keysAt = (schema: z.ZodType, path: readonly PropertyKey[], holds: unknown): string[] => {
  const inside = (at: unknown, key: PropertyKey): unknown[] => {
    if (at instanceof z.ZodObject) return forms((at.shape as Record<string, unknown>)[String(key)])
    if (at instanceof z.ZodArray) return forms(at.element)
    return at instanceof z.ZodRecord ? forms(at.valueType) : []
  }
  const found = path.reduce<unknown[]>((all, key) => all.flatMap((at) => inside(at, key)), forms(schema))
  const objects = found.filter((at): at is z.ZodObject => at instanceof z.ZodObject)
  const fits = ({ shape }: z.ZodObject): boolean =>
    Object.entries(shape).every(([key, field]) => !(field instanceof z.ZodLiteral) || field.safeParse((holds as Record<string, unknown> | undefined)?.[key]).success)
  return [...new Set(objects.filter(fits).flatMap(({ shape }) => Object.keys(shape)))]
}

/** What a schema may be: one, but for a union. */
const forms = (schema: unknown): unknown[] => {
  const at = unwrap(schema)
  return at instanceof z.ZodUnion ? at.options.flatMap(forms) : [at]
}

const unwrap = (schema: unknown): unknown => {
  while (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodNullable) {
    schema = schema.unwrap()
  }
  if (schema instanceof z.ZodPipe) return unwrap(schema.in)
  return schema
}
