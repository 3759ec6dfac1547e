/** Tensor operations that are quick, and differentiable, on every engine. */
import { tf } from './backend.js'

/**
 * a·b of two matrices, [m, k] × [k, n] → [m, n], with its gradients as plain products too.
 *
 * On tensorflow a transposed operand is free. On wasm it is ten times slower than transposing first, so there the transpose is explicit.
 */
export const matmul2d = tf.customGrad((a, b, save) => {
  const [left, right] = [a, b as tf.Tensor] as [tf.Tensor2D, tf.Tensor2D]
  ;(save as tf.GradSaveFunc)([left, right])
  return {
    value: tf.matMul(left, right),
    gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => {
      const [x, y] = saved as [tf.Tensor2D, tf.Tensor2D]
      const dz = dy as tf.Tensor2D
      return tf.getBackend() === 'tensorflow'
        ? [tf.matMul(dz, y, false, true), tf.matMul(x, dz, true, false)]
        : [tf.matMul(dz, tf.transpose(y)), tf.matMul(tf.transpose(x), dz)]
    },
  }
}) as (a: tf.Tensor2D, b: tf.Tensor2D) => tf.Tensor2D
