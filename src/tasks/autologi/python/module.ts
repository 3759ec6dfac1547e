import { isInteger, PyFunction, raise, toBigInt, typeName, type Call, type Value } from './values.js'

/** What the modules are written with. */

export type Members = Record<string, Value>
export const fn = (name: string, body: Call, attributes?: Readonly<Record<string, Value>>): PyFunction =>
  new PyFunction(name, body, attributes)
export const functions = (bodies: Record<string, Call>): Members =>
  Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, fn(name, body)]))
export const integer = (value: Value | undefined): bigint =>
  value !== undefined && isInteger(value)
    ? toBigInt(value)
    : raise('TypeError', `'${typeName(value ?? null)}' object cannot be interpreted as an integer`)
export const count = (value: Value | undefined, what: string): number => {
  const n = Number(integer(value))
  return n >= 0 ? n : raise('ValueError', `${what} must be non-negative`)
}

