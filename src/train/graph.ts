/**
 * A function of tensors as one TensorFlow graph, on the tensorflow engine. Run operation by operation from JavaScript, a small model's decoding step
 * spends two thirds of its time on the way into TensorFlow and out again; as a graph it is one call.
 *
 * The function is run once, and the operations that it makes are recorded and loaded as a SavedModel, the one form in which tfjs-node takes a
 * graph (TensorFlow's core/protobuf/saved_model.proto and meta_graph.proto; core/framework/graph.proto, node_def.proto, attr_value.proto, tensor.proto).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InputError, messageOf } from '../util/errors.js'
import { tf } from './backend.js'

/** A compiled function. Takes as many tensors as its example had, of the same ranks and types; gives tensors that the caller disposes. */
export interface Graph {
  (inputs: readonly tf.Tensor[]): tf.Tensor[]
  /** Frees what the graph holds in TensorFlow. */
  dispose(): void
}

type TensorFunction = (inputs: tf.Tensor[]) => tf.Tensor[]

/** What is used of tfjs-node's backend. */
interface Native {
  readonly binding: Record<string, number> & { loadSavedModel(folder: string, tags: string): number; deleteSavedModel(id: number): void }
  readonly isUsingGpuDevice: boolean
  executeSingleOutput(name: string, attributes: Attribute[], inputs: tf.TensorInfo[]): tf.Tensor
  executeMultipleOutputs(name: string, attributes: Attribute[], inputs: tf.TensorInfo[], outputs: number): tf.Tensor[]
  write(values: tf.TypedArray, shape: number[], dtype: tf.DataType): object
  readSync(dataId: object): tf.TypedArray
  runSavedModel(id: number, inputs: readonly tf.TensorInfo[], names: { name: string }[], outputs: string[]): tf.Tensor[]
}

interface Attribute {
  readonly name: string
  readonly type: number
  readonly value: number | boolean | string
}

/** Whether graphs can be made here: TensorFlow on the CPU. (On a GPU every input would be copied there for each call.) */
export const compiles = (): boolean => tf.getBackend() === 'tensorflow' && !(tf.backend() as unknown as Native).isUsingGpuDevice

/**
 * Compile a function from one run of it on an example. It must do the same operations whatever the values. Tensors that it makes itself from values
 * become constants; those from outside that it uses (a frozen base) are inputs too, and must live as long as the graph. The leading dimension of
 * every reshape is left free, and nothing else is: so inputs may differ from the example in the leading dimension, and in others only where the
 * function mentions no size that depends on them.
 *
 * @throws InputError when the folder for temporary files cannot be written
 */
export const compileGraph = (f: TensorFunction, example: tf.Tensor[]): Graph => {
  const native = tf.backend() as unknown as Native
  const { nodes, outputs, captured } = record(native, f, example)
  const folder = temporaryFolder()
  try {
    writeFileSync(join(folder, 'saved_model.pb'), savedModel(nodes))
    const id = native.binding.loadSavedModel(folder, TAG)
    const names = [...example, ...captured].map((_, i) => ({ name: `input${i}:0` }))
    const run = (inputs: readonly tf.Tensor[]): tf.Tensor[] => native.runSavedModel(id, [...inputs, ...captured], names, outputs)
    return Object.assign(run, { dispose: () => native.binding.deleteSavedModel(id) })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Where graphs can be made: see that they have a folder to be made in. @throws InputError when it cannot be written */
export const checkTemporaryFolder = (): void => {
  if (compiles()) rmSync(temporaryFolder(), { recursive: true })
}

const temporaryFolder = (): string => {
  try {
    return mkdtempSync(join(tmpdir(), 'teamtr-graph-'))
  } catch (error) {
    throw new InputError(`${tmpdir()}: cannot be written: ${messageOf(error)}; TMPDIR names a folder for temporary files`)
  }
}

/**
 * f itself, until inputs of the same shapes come for the tenth time: from then on, where graphs can be made, a graph for those shapes. So compiling
 * takes no more time than it saves. A graph rounds differently, so what must come out the same has to start from the same call of this.
 */
export const compiledByShape = (f: TensorFunction): Graph => {
  const calls = new Map<string, { count: number; graph?: Graph }>()
  const run = (inputs: readonly tf.Tensor[]): tf.Tensor[] => {
    const shapes = JSON.stringify(inputs.map(({ shape }) => shape))
    const call = calls.get(shapes) ?? { count: 0 }
    calls.set(shapes, call)
    call.count++
    if (call.count === WORTH_COMPILING && compiles()) call.graph = compileGraph(f, [...inputs])
    return call.graph ? call.graph(inputs) : tf.tidy(() => f([...inputs]))
  }
  return Object.assign(run, { dispose: () => calls.forEach(({ graph }) => graph?.dispose()) })
}

const WORTH_COMPILING = 10

const TAG = 'serve'

interface Recording {
  readonly nodes: Buffer[]
  readonly outputs: string[]
  /** Inputs beside the example's. */
  readonly captured: tf.TensorInfo[]
}

/** Run f, and note down each operation as a node of the graph. */
const record = (native: Native, f: TensorFunction, example: tf.Tensor[]): Recording => {
  const nodes: Buffer[] = []
  const captured: tf.TensorInfo[] = []
  // Which output of which node a tensor's data are. Those that f made from values are constants, if something uses them.
  const sources = new Map<object, string>()
  const made = new Map<object, { shape: number[]; dtype: tf.DataType }>()
  const input = ({ dataId, dtype }: tf.TensorInfo, i: number): string => {
    nodes.push(node(`input${i}`, 'Placeholder', [], [['dtype', typeValue(dtype)], ['shape', unknownShape()]]))
    sources.set(dataId, `input${i}:0`)
    return `input${i}:0`
  }
  example.forEach(input)
  const source = (operation: string, tensor: tf.TensorInfo): string => {
    const { dataId, dtype } = tensor
    const known = sources.get(dataId)
    if (known) return known
    const constant = made.get(dataId)
    if (!constant) return input(tensor, example.length + captured.push(tensor) - 1)
    const values = native.readSync(dataId).slice()
    if (operation === 'Reshape' && dtype === 'int32' && values.length > 0) values[0] = -1
    const name = `constant${nodes.length}`
    nodes.push(node(name, 'Const', [], [['dtype', typeValue(dtype)], ['value', tensorValue(constant.shape, dtype, values)]]))
    // The shape of a reshape may be, by the same tensor, something else elsewhere: it is not noted under its data.
    if (operation !== 'Reshape') sources.set(dataId, `${name}:0`)
    return `${name}:0`
  }
  const note = (operation: string, attributes: Attribute[], inputs: tf.TensorInfo[], outputs: tf.Tensor[]): void => {
    const from = inputs.map((input) => source(operation, input))
    const name = `operation${nodes.length}`
    nodes.push(node(name, operation, from, attributes.map((attribute) => [attribute.name, attributeValue(native, attribute)])))
    outputs.forEach(({ dataId }, i) => sources.set(dataId, `${name}:${i}`))
  }
  const plain = Object.getPrototypeOf(native) as Native
  Object.assign(native, {
    executeSingleOutput(name, attributes, inputs) {
      const output = plain.executeSingleOutput.call(native, name, attributes, inputs)
      note(name, attributes, inputs, [output])
      return output
    },
    executeMultipleOutputs(name, attributes, inputs, count) {
      const outputs = plain.executeMultipleOutputs.call(native, name, attributes, inputs, count)
      note(name, attributes, inputs, outputs)
      return outputs
    },
    write(values, shape, dtype) {
      const dataId = plain.write.call(native, values, shape, dtype)
      made.set(dataId, { shape, dtype })
      return dataId
    },
  } satisfies Partial<Native>)
  const outputs: string[] = []
  try {
    tf.tidy(() => {
      f(example).forEach((output, i) => {
        // A name of its own: an input as it is, or one tensor twice, could not be fetched.
        nodes.push(node(`output${i}`, 'Identity', [source('output', output)], [['T', typeValue(output.dtype)]]))
        outputs.push(`output${i}:0`)
      })
    })
    return { nodes, outputs, captured }
  } finally {
    for (const method of ['executeSingleOutput', 'executeMultipleOutputs', 'write'] as const) delete (native as Partial<Native>)[method]
  }
}

// The protocol buffers of a SavedModel.

const savedModel = (nodes: readonly Buffer[]): Buffer => {
  const metaInfo = message(1, text(4, TAG))
  const graph = message(2, ...nodes, message(4, integer(1, GRAPH_VERSION)))
  return Buffer.concat([integer(1, 1), message(2, metaInfo, graph)])
}

/** The GraphDef version that the recorded operations are of (core/public/version.h); TensorFlow reads graphs of older versions for years. */
const GRAPH_VERSION = 1900

/** NodeDef, as a field of GraphDef. */
const node = (name: string, operation: string, inputs: readonly string[], attributes: readonly (readonly [string, Buffer])[]): Buffer =>
  message(1, text(1, name), text(2, operation), ...inputs.map((input) => text(3, input)), ...attributes.map(([key, value]) => message(5, text(1, key), message(2, value))))

const dataTypes: Partial<Record<tf.DataType, number>> = { float32: 1, int32: 3, bool: 10 }
const dataType = (dtype: tf.DataType): number => {
  const number = dataTypes[dtype]
  if (number === undefined) throw new Error(`a graph of ${dtype} tensors`)
  return number
}

const typeValue = (dtype: tf.DataType): Buffer => integer(6, dataType(dtype))
const unknownShape = (): Buffer => message(7, integer(3, 1))
const tensorValue = (shape: readonly number[], dtype: tf.DataType, values: tf.TypedArray): Buffer =>
  message(8, integer(1, dataType(dtype)), message(2, ...shape.map((size) => message(2, integer(1, size)))), bytes(4, Buffer.from(values.buffer, values.byteOffset, values.byteLength)))

const attributeValue = ({ binding }: Native, { name, type, value }: Attribute): Buffer => {
  switch (type) {
    case binding.TF_ATTR_TYPE: return integer(6, value as number)
    case binding.TF_ATTR_BOOL: return integer(5, Number(value))
    case binding.TF_ATTR_INT: return integer(3, value as number)
    case binding.TF_ATTR_FLOAT: return float(4, value as number)
    case binding.TF_ATTR_STRING: return text(2, value as string)
    default: throw new Error(`attribute ${name} of type ${type}`)
  }
}

const varint = (value: number | bigint): Buffer => {
  const out: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  for (; rest >= 128n; rest >>= 7n) out.push(Number(rest & 127n) | 128)
  return Buffer.from([...out, Number(rest)])
}
const integer = (field: number, value: number): Buffer => Buffer.concat([varint(field << 3), varint(value)])
const float = (field: number, value: number): Buffer => Buffer.concat([varint((field << 3) | 5), Buffer.from(Float32Array.of(value).buffer)])
const bytes = (field: number, value: Buffer): Buffer => Buffer.concat([varint((field << 3) | 2), varint(value.length), value])
const text = (field: number, value: string): Buffer => bytes(field, Buffer.from(value))
const message = (field: number, ...parts: readonly Buffer[]): Buffer => bytes(field, Buffer.concat(parts))
