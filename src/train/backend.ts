/**
 * The one place that picks a TensorFlow.js engine, and the only tfjs instance: everything under
 * train/ imports `tf` from here.
 *
 * The engines, best first:
 *   tensorflow  TensorFlow itself (CPU or CUDA), through the binding that `npm run native` builds
 *   webgpu      a GPU through Dawn; never picked unasked
 *   wasm        embedded, always there: one thread, SIMD
 *   cpu         plain JavaScript: slow, for cross-checks
 */
import * as tf from '@tensorflow/tfjs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus } from 'node:os'
import { dirname } from 'node:path'
import { InputError, messageOf } from '../util/errors.js'

export { tf }

export const engineNames = ['tensorflow', 'webgpu', 'wasm', 'cpu'] as const
export type EngineName = (typeof engineNames)[number]

/** What computes, and why that. */
export interface Engine {
  readonly name: EngineName
  /** One sentence: who chose it, or why nothing better runs. */
  readonly why: string
  /** Version of the TensorFlow library behind the engine; null where there is none. */
  readonly tensorflowVersion: string | null
  readonly tfjsVersion: string
  /** Threads of one operation. */
  readonly threads: number
  /** What does the arithmetic: the name of the CPU or GPU. */
  readonly device: string
}

const require = createRequire(import.meta.url)

/**
 * Start an engine and make it tfjs's current one.
 *
 * @param choice the engine asked for; else the environment's TEAMTR_ENGINE; else the first of tensorflow, wasm, cpu that runs
 * @throws InputError when the engine asked for is unknown or cannot run: never another one in its place
 */
export const initEngine = async (choice?: string): Promise<Engine> => {
  const asked = choice ?? (process.env.TEAMTR_ENGINE || undefined)
  const from = choice === undefined ? 'TEAMTR_ENGINE' : '--engine'
  if (asked !== undefined) {
    if (!isEngineName(asked)) throw new InputError(`${from}: ${JSON.stringify(asked)} is no engine; one of ${engineNames.join(', ')}`)
    try {
      return await start(asked, `asked for by ${from}`)
    } catch (error) {
      throw new InputError(`${from}: ${asked} cannot run: ${messageOf(error)}`)
    }
  }
  let why = 'the fastest there is'
  for (const name of ['tensorflow', 'wasm'] as const) {
    try {
      return await start(name, why)
    } catch (error) {
      why = `${name} cannot run: ${messageOf(error)}`
    }
  }
  return start('cpu', why)
}

const isEngineName = (name: string): name is EngineName => (engineNames as readonly string[]).includes(name)

const start = async (name: EngineName, why: string): Promise<Engine> => {
  const details = await starters[name]()
  await tf.ready()
  return { name, why, tfjsVersion: tf.version_core, ...details }
}

type Details = Pick<Engine, 'tensorflowVersion' | 'threads' | 'device'>

const processor = (): string => cpus()[0]?.model.trim() || process.arch

const starters: Record<EngineName, () => Promise<Details>> = {
  async tensorflow() {
    process.env.TF_CPP_MIN_LOG_LEVEL ??= '2'
    try {
      require('@tensorflow/tfjs-node-gpu')
    } catch (error) {
      throw new Error(`${messageOf(error).split('\n')[0]} (set it up: npm run native)`)
    }
    await use('tensorflow')
    const { binding } = tf.backend() as unknown as { binding: { TF_Version: string } }
    return { tensorflowVersion: binding.TF_Version, threads: availableParallelism(), device: processor() }
  },
  async webgpu() {
    throw new Error('not installed')
  },
  async wasm() {
    const wasm = require('@tensorflow/tfjs-backend-wasm') as typeof import('@tensorflow/tfjs-backend-wasm')
    if (tf.findBackend('wasm') === null) wasm.setWasmPaths(`${dirname(require.resolve('@tensorflow/tfjs-backend-wasm'))}/`)
    await use('wasm')
    return { tensorflowVersion: null, threads: 1, device: processor() }
  },
  async cpu() {
    await use('cpu')
    return { tensorflowVersion: null, threads: 1, device: processor() }
  },
}

const use = async (backend: string): Promise<void> => {
  if (!await tf.setBackend(backend)) throw new Error(`tfjs could not start its ${backend} backend`)
}
