/**
 * Just enough of a WebAssembly assembler to write a few numeric loops as expressions (W3C WebAssembly core specification 1.0, section 5,
 * binary format). Code is a list of bytes; a function here is named after the instruction it writes.
 */
export type Code = readonly number[]

export const I32 = 0x7f
export const F64 = 0x7c

export interface Kernel {
  readonly name: string
  readonly parameters: readonly number[]
  readonly locals: readonly number[]
  readonly result?: number
  readonly body: Code
}

/** Local variable i; parameters come first. */
export const get = (i: number): Code => [0x20, i]
export const set = (i: number, value: Code): Code => [...value, 0x21, i]

export const int = (value: number): Code => [0x41, ...signed(value)]
export const zero: Code = [0x44, 0, 0, 0, 0, 0, 0, 0, 0]

const binary = (opcode: number) => (a: Code, b: Code): Code => [...a, ...b, opcode]
export const addInt = binary(0x6a)
export const subInt = binary(0x6b)
export const shiftLeft = binary(0x74)
/** unsigned a < b */
export const below = binary(0x49)
export const add = binary(0xa0)
export const sub = binary(0xa1)
export const mul = binary(0xa2)
export const max = binary(0xa5)
export const notEqual = binary(0x62)
export const abs = (a: Code): Code => [...a, 0x99]

/** Loads and stores at a byte address plus a fixed offset. */
export const loadInt = (address: Code, offset = 0): Code => [...address, 0x28, 2, ...unsigned(offset)]
export const load = (address: Code, offset = 0): Code => [...address, 0x2b, 3, ...unsigned(offset)]
export const store = (address: Code, value: Code): Code => [...address, ...value, 0x39, 3, 0]

export const when = (condition: Code, ...then: Code[]): Code => [...condition, 0x04, 0x40, ...then.flat(), 0x0b]
export const loopWhile = (condition: Code, ...body: Code[]): Code => [
  0x02, 0x40, 0x03, 0x40, ...condition, 0x45, 0x0d, 1, ...body.flat(), 0x0c, 0, 0x0b, 0x0b,
]

/** A module with an exported `memory` and the kernels. */
export const assemble = (kernels: readonly Kernel[]): Uint8Array => {
  const types = kernels.map(({ parameters, result }) => [0x60, ...vector(parameters.map((p) => [p])), ...vector(result === undefined ? [] : [[result]])])
  const bodies = kernels.map(({ locals, body }) => {
    const code = [...vector(locals.map((type) => [1, type])), ...body, 0x0b]
    return [...unsigned(code.length), ...code]
  })
  const exports = [[...text('memory'), 2, 0], ...kernels.map(({ name }, i) => [...text(name), 0, i])]
  return new Uint8Array([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, types),
    ...section(3, kernels.map((_, i) => [i])),
    ...section(5, [[0, 0]]),
    ...section(7, exports),
    ...section(10, bodies),
  ])
}

const section = (id: number, items: readonly Code[]): Code => {
  const content = vector(items)
  return [id, ...unsigned(content.length), ...content]
}
const vector = (items: readonly Code[]): Code => [...unsigned(items.length), ...items.flat()]
const text = (name: string): Code => vector([...name].map((c) => [c.charCodeAt(0)]))

/** LEB128 */
const unsigned = (value: number): Code => (value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >>> 7)])
const signed = (value: number): Code => (value >= -64 && value < 64 ? [value & 127] : [(value & 127) | 128, ...signed(value >> 7)])
