/** Tensor operations that are quick, and differentiable, on every engine. */
import { tf } from './backend.js'

/** a·b of two matrices, [m, k] × [k, n] → [m, n]. Quick with its gradients on every engine: on wasm by our kernel (kernels.ts). */
export const matmul2d = (a: tf.Tensor2D, b: tf.Tensor2D): tf.Tensor2D => tf.matMul(a, b)
