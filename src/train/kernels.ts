/**
 * Kernels of ours in place of an engine's own, where those are missing or slow. backend.ts registers them when it starts an engine.
 *
 *   BatchMatMul         tensorflow: two matrices go to MatMul. wasm: transposed and batched products are ten times slower than a plain one
 *   SplitV, GatherV2    wasm: element by element, where blocks can be copied
 *   UnsortedSegmentSum  (the gradient of a gather) missing on wasm; on cpu one pass over all rows per segment
 */
import * as tf from '@tensorflow/tfjs'

/** To be called when the engine has started: tfjs binds its own kernels to the engine then. */
export const registerKernels = (engine: string): void => replacements[engine]?.().forEach(replaceKernel)

const replaceKernel = (kernel: tf.KernelConfig): void => {
  if (tf.getKernel(kernel.kernelName, kernel.backendName)) tf.unregisterKernel(kernel.kernelName, kernel.backendName)
  tf.registerKernel(kernel)
}

type Matrices = { a: tf.TensorInfo; b: tf.TensorInfo }
type Transposed = { transposeA: boolean; transposeB: boolean }

// tensorflow

/** The part of tfjs-node's backend that runs one TensorFlow operation by name. */
interface Native extends tf.KernelBackend {
  readonly binding: Record<string, number>
  executeSingleOutput(name: string, attributes: readonly object[], inputs: readonly tf.TensorInfo[]): tf.TensorInfo
}

/** BatchMatMul, which tfjs-node uses for two matrices too, hands a small product from thread to thread (70 µs where MatMul takes 10). */
const nativeMatMul: tf.KernelConfig = {
  kernelName: 'BatchMatMul',
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { a, b } = inputs as Matrices
    const { transposeA, transposeB } = attrs as unknown as Transposed
    const { binding } = backend as Native
    const flat = a.shape.length === 2 && b.shape.length === 2
    const [nameA, nameB] = flat ? ['transpose_a', 'transpose_b'] : ['adj_x', 'adj_y']
    return (backend as Native).executeSingleOutput(flat ? 'MatMul' : 'BatchMatMulV2', [
      { name: 'T', type: binding.TF_ATTR_TYPE, value: a.dtype === 'int32' ? binding.TF_INT32 : binding.TF_FLOAT },
      { name: nameA, type: binding.TF_ATTR_BOOL, value: transposeA },
      { name: nameB, type: binding.TF_ATTR_BOOL, value: transposeB },
    ], [a, b])
  },
}

// wasm

/** What is used of tfjs's BackendWasm: tensors are stretches of one heap. */
interface Wasm extends tf.KernelBackend {
  readonly wasm: {
    readonly HEAPU8: Uint8Array
    cwrap(name: string, result: null, parameters: readonly string[]): (...args: unknown[]) => void
    readonly tfjs: { disposeData(id: number): void }
  }
  readonly dataIdMap: { get(id: object): { id: number; memoryOffset: number }; delete(id: object): void }
  makeOutput(shape: readonly number[], dtype: string, memoryOffset?: number): tf.TensorInfo
  typedArrayFromHeap(tensor: tf.TensorInfo): tf.TypedArray
  disposeData(id: object): boolean
}

/** Setting up XNNPACK costs about 5 µs and a pass over the right matrix: worth it from this many multiplications, and rows on the left. */
const WORTH_XNNPACK = { multiplications: 8192, rows: 16 }

/** An operand in the wasm module's own terms: id, shape, rank. */
const operand = ['number', 'array', 'number']

/**
 * tfjs multiplies with XNNPACK only where neither operand is transposed and there is one matrix each. So transposed operands are
 * transposed first, and the matrices of a batch are multiplied one by one, in place.
 */
const wasmMatMul = (): tf.KernelConfig => {
  const original = tf.getKernel('BatchMatMul', 'wasm').kernelFunc
  const transpose = tf.getKernel('Transpose', 'wasm').kernelFunc
  let multiply: (...args: unknown[]) => void
  const kernelFunc: tf.KernelFunc = (call) => {
    const wasm = call.backend as Wasm
    const { a: x, b: y } = call.inputs as Matrices
    const { transposeA, transposeB } = call.attrs as unknown as Transposed
    const [batchA, batchB] = [x, y].map(({ shape }) => tf.util.sizeFromShape(shape.slice(0, -2)))
    const [m, k] = transposeA ? [x.shape.at(-1)!, x.shape.at(-2)!] : x.shape.slice(-2)
    const [n, inner] = transposeB ? y.shape.slice(-2) : [y.shape.at(-1)!, y.shape.at(-2)!]
    // One matrix on the right: the whole batch on the left is one tall matrix.
    const rows = batchB === 1 ? batchA * m : m
    const ours = (batchB === 1 || batchA === batchB) && x.dtype === 'float32' && y.dtype === 'float32' && k === inner
    const worth = rows * k * n >= WORTH_XNNPACK.multiplications && (batchB === 1 || m >= WORTH_XNNPACK.rows)
    if (!ours || !worth) return original(call)

    multiply ??= wasm.wasm.cwrap('BatchMatMul', null, [...operand, ...operand, 'number', 'number', 'number'])
    const swapped = (t: tf.TensorInfo): tf.TensorInfo => {
      const last = t.shape.length - 1
      const perm = [...t.shape.keys()].slice(0, -2).concat(last, last - 1)
      return transpose({ inputs: { x: t }, attrs: { perm }, backend: wasm }) as tf.TensorInfo
    }
    const a = transposeA ? swapped(x) : x
    const b = transposeB ? swapped(y) : y
    const outer = x.shape.length >= y.shape.length ? x.shape.slice(0, -2) : y.shape.slice(0, -2)
    const out = wasm.makeOutput([...outer, m, n], 'float32')
    for (let i = 0; i < batchB; i++) {
      const views = [view(wasm, a, i, [rows, k]), view(wasm, b, i, [k, n]), view(wasm, out, i, [rows, n])]
      const [left, right, product] = views.map(({ dataId }) => wasm.dataIdMap.get(dataId).id)
      multiply(left, bytes([1, rows, k]), 3, right, bytes([1, k, n]), 3, 0, 0, product)
      views.forEach(({ dataId }) => forget(wasm, dataId))
    }
    if (transposeA) wasm.disposeData(a.dataId)
    if (transposeB) wasm.disposeData(b.dataId)
    return out
  }
  return { kernelName: 'BatchMatMul', backendName: 'wasm', kernelFunc }
}

const bytes = (shape: number[]): Uint8Array => new Uint8Array(new Int32Array(shape).buffer)

/** Matrix i of a batch, in the batch's own memory: to be forgotten, never freed. */
const view = (wasm: Wasm, batch: tf.TensorInfo, i: number, shape: readonly [number, number]): tf.TensorInfo =>
  wasm.makeOutput(shape, 'float32', wasm.dataIdMap.get(batch.dataId).memoryOffset + i * shape[0] * shape[1] * 4)

const forget = (wasm: Wasm, dataId: object): void => {
  wasm.wasm.tfjs.disposeData(wasm.dataIdMap.get(dataId).id)
  wasm.dataIdMap.delete(dataId)
}

/** Copies blocks of `length` elements of 4 bytes, to lie one after the other in `to`; block i is at `source(i)` in `from`. */
const copyBlocks = (
  wasm: Wasm, from: tf.TensorInfo, to: tf.TensorInfo, count: number, length: number, source: (i: number) => number,
): void => {
  const heap = new Int32Array(wasm.wasm.HEAPU8.buffer)
  const [start, target] = [from, to].map(({ dataId }) => wasm.dataIdMap.get(dataId).memoryOffset / 4)
  for (let i = 0; i < count; i++) {
    const at = start + source(i)
    heap.copyWithin(target + i * length, at, at + length)
  }
}

const wasmSplit = (): tf.KernelConfig => {
  const original = tf.getKernel('SplitV', 'wasm').kernelFunc
  const kernelFunc: tf.KernelFunc = (call) => {
    const wasm = call.backend as Wasm
    const { x } = call.inputs as { x: tf.TensorInfo }
    const { numOrSizeSplits, axis } = call.attrs as unknown as { numOrSizeSplits: number | number[]; axis: number }
    if (x.dtype !== 'float32' && x.dtype !== 'int32') return original(call)
    const [along] = tf.util.parseAxisParam(axis, x.shape)
    const outer = tf.util.sizeFromShape(x.shape.slice(0, along))
    const inner = tf.util.sizeFromShape(x.shape.slice(along + 1))
    let passed = 0
    return tf.backend_util.prepareSplitSize(x as tf.Tensor, numOrSizeSplits, along).map((size) => {
      const out = wasm.makeOutput([...x.shape.slice(0, along), size, ...x.shape.slice(along + 1)], x.dtype)
      const before = passed
      copyBlocks(wasm, x, out, outer, size * inner, (i) => (i * x.shape[along] + before) * inner)
      passed += size
      return out
    })
  }
  return { kernelName: 'SplitV', backendName: 'wasm', kernelFunc }
}

/** Rows of a table; any other gather is tfjs's. */
const wasmGather = (): tf.KernelConfig => {
  const original = tf.getKernel('GatherV2', 'wasm').kernelFunc
  const kernelFunc: tf.KernelFunc = (call) => {
    const wasm = call.backend as Wasm
    const { x, indices } = call.inputs as { x: tf.TensorInfo; indices: tf.TensorInfo }
    const { axis, batchDims } = call.attrs as unknown as { axis: number; batchDims: number }
    const ours = axis === 0 && batchDims === 0 && indices.dtype === 'int32' && (x.dtype === 'float32' || x.dtype === 'int32')
    if (!ours) return original(call)
    const width = rowSize(x)
    const out = wasm.makeOutput([...indices.shape, ...x.shape.slice(1)], x.dtype)
    const rows = wasm.typedArrayFromHeap(indices)
    const wrong = rows.find((row) => row < 0 || row >= x.shape[0])
    if (wrong !== undefined) throw new RangeError(`gather: row ${wrong} of a table of ${x.shape[0]}`)
    copyBlocks(wasm, x, out, rows.length, width, (i) => rows[i] * width)
    return out
  }
  return { kernelName: 'GatherV2', backendName: 'wasm', kernelFunc }
}

const wasmSegmentSum: tf.KernelConfig = {
  kernelName: 'UnsortedSegmentSum',
  backendName: 'wasm',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const wasm = backend as Wasm
    const { x, segmentIds } = inputs as { x: tf.TensorInfo; segmentIds: tf.TensorInfo }
    const out = wasm.makeOutput([attrs!.numSegments as number, ...x.shape.slice(1)], x.dtype)
    // The arrays are taken after the output is made: the heap may have moved.
    sumBySegment(wasm.typedArrayFromHeap(x), wasm.typedArrayFromHeap(segmentIds), rowSize(x), wasm.typedArrayFromHeap(out))
    return out
  },
}

// cpu

/** What is used of tfjs's MathBackendCPU. */
interface Cpu extends tf.KernelBackend {
  readonly data: { get(id: object): { values: tf.TypedArray } }
  makeTensorInfo(shape: readonly number[], dtype: string, values: tf.TypedArray): tf.TensorInfo
}

const cpuSegmentSum: tf.KernelConfig = {
  kernelName: 'UnsortedSegmentSum',
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const cpu = backend as Cpu
    const { x, segmentIds } = inputs as { x: tf.TensorInfo; segmentIds: tf.TensorInfo }
    const shape = [attrs!.numSegments as number, ...x.shape.slice(1)]
    const sums = tf.util.makeZerosTypedArray(tf.util.sizeFromShape(shape), x.dtype as 'float32' | 'int32')
    sumBySegment(cpu.data.get(x.dataId).values, cpu.data.get(segmentIds.dataId).values, rowSize(x), sums)
    return cpu.makeTensorInfo(shape, x.dtype, sums)
  },
}

const rowSize = ({ shape }: tf.TensorInfo): number => tf.util.sizeFromShape(shape.slice(1))

/** sums[s] = Σ_{n: segments[n] = s} rows[n]; a row whose segment is outside the sums is dropped, as TensorFlow does. */
const sumBySegment = (rows: tf.TypedArray, segments: tf.TypedArray, width: number, sums: tf.TypedArray): void => {
  sums.fill(0)
  for (let n = 0; n < segments.length; n++) {
    const at = segments[n] * width
    if (at < 0 || at >= sums.length) continue
    for (let i = 0; i < width; i++) sums[at + i] += rows[n * width + i]
  }
}

const replacements: Record<string, (() => tf.KernelConfig[]) | undefined> = {
  tensorflow: () => [nativeMatMul],
  wasm: () => [wasmMatMul(), wasmSplit(), wasmGather(), wasmSegmentSum],
  cpu: () => [cpuSegmentSum],
}
