import { tf } from '../backend.js'
import { InputError } from '../../util/errors.js'
import { show } from '../../util/validate.js'
import type { ParameterSlot } from '../policy.js'
import { layoutSize, slotSize } from './layout.js'
import { openSafetensors, writeSafetensors } from './safetensors.js'

/** Vectors laid out like θ, by what they are: θ itself, Adam's moments. Their tensors are called `KEY/SLOT` in the file. */
export type Vectors = Readonly<Record<string, tf.Tensor1D>>

/**
 * Write vectors as named tensors, atomically.
 *
 * @param metadata strings that go into the file's header
 * @throws InputError when the file cannot be written
 */
export const writeVectors = async (file: string, layout: readonly ParameterSlot[], vectors: Vectors, metadata: Readonly<Record<string, string>> = {}): Promise<void> => {
  const tensors = []
  for (const [key, vector] of Object.entries(vectors)) {
    const data = (await vector.data()) as Float32Array
    for (const slot of layout) tensors.push({ name: `${key}/${slot.name}`, shape: slot.shape, data: data.subarray(slot.offset, slot.offset + slotSize(slot)) })
  }
  writeSafetensors(file, tensors, metadata)
}

/**
 * Read vectors that `writeVectors` wrote; bit for bit the same.
 *
 * @param keys which vectors
 * @returns vectors that the caller disposes, and the metadata
 * @throws InputError naming the tensor that is missing, superfluous or shaped otherwise, or what is wrong with the file
 */
export const readVectors = <K extends string>(file: string, layout: readonly ParameterSlot[], keys: readonly K[]): { vectors: Record<K, tf.Tensor1D>; metadata: Readonly<Record<string, string>> } => {
  const { tensors, metadata } = openSafetensors(file)
  const expected = new Set(keys.flatMap((key) => layout.map((slot) => `${key}/${slot.name}`)))
  for (const name of tensors.keys()) if (!expected.has(name)) throw new InputError(`${file}: tensor ${show(name)}: does not belong to this model`)
  const read = (key: K): Float32Array => {
    const found = layout.map((slot) => {
      const name = `${key}/${slot.name}`
      const tensor = tensors.get(name)
      if (!tensor) throw new InputError(`${file}: tensor ${show(name)}: missing; shape [${slot.shape}] is needed`)
      if (tensor.shape.join() !== slot.shape.join() || tensor.dtype !== 'F32') {
        throw new InputError(`${file}: tensor ${show(name)}: is ${tensor.dtype} of shape [${tensor.shape}]; F32 of shape [${slot.shape}] is needed`)
      }
      return { slot, tensor }
    })
    const values = new Float32Array(layoutSize(layout))
    for (const { slot, tensor } of found) values.set(tensor.read(), slot.offset)
    return values
  }
  const arrays = keys.map((key) => [key, read(key)] as const)
  return { vectors: Object.fromEntries(arrays.map(([key, values]) => [key, tf.tensor1d(values)])) as Record<K, tf.Tensor1D>, metadata }
}
