/**
 * The one place that picks a TensorFlow.js engine, and the only tfjs instance: everything under
 * train/ imports `tf` from here.
 *
 * The engines, best first:
 *   tensorflow  TensorFlow itself (CPU or CUDA), through the binding that `npm run native` builds
 *   webgpu      a GPU through Dawn (npm's `webgpu`, to be installed by hand); never picked unasked
 *   wasm        embedded, always there: one thread, SIMD
 *   cpu         plain JavaScript: slow, for cross-checks
 *
 * The same seed gives the same numbers, bit for bit, on the same engine with the same number of threads:
 * TensorFlow splits sums by threads, so another number of threads rounds differently.
 */
import * as tf from '@tensorflow/tfjs'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus } from 'node:os'
import { dirname, join } from 'node:path'
import { InputError, messageOf } from '../util/errors.js'
import { nativeFolder, nvidiaGpus } from './devices.js'
import { registerKernels } from './kernels.js'

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
  /** Threads of one operation on the CPU. */
  readonly threads: number
  /** What does the arithmetic: the name of the CPU or GPU. */
  readonly device: string
  readonly gpu: boolean
}

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
    if (!isEngineName(asked)) throw new InputError(`${from}: holds ${JSON.stringify(asked)}; one of ${engineNames.join(', ')}`)
    try {
      return await start(asked, `asked for by ${from}`)
    } catch (error) {
      throw new InputError(`${from}: ${asked} cannot run: ${messageOf(error)}`)
    }
  }
  let why = 'the fastest that is set up'
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

type Details = Pick<Engine, 'tensorflowVersion' | 'threads' | 'device' | 'gpu'>

const started = new Map<EngineName, Details>()

const start = async (name: EngineName, why: string): Promise<Engine> => {
  const details = started.get(name) ?? await starters[name]()
  if (!started.has(name)) registerKernels(name)
  else await use(name)
  started.set(name, details)
  return { name, why, tfjsVersion: tf.version_core, ...details }
}

const require = createRequire(import.meta.url)

const starters: Record<EngineName, () => Promise<Details>> = {
  async tensorflow() {
    for (const [name, value] of Object.entries(tensorflowSettings)) process.env[name] ??= value
    try {
      const folder = nativeFolder() ?? ''
      shieldFromSignals(folder)
      loadQuietly(folder)
      require('@tensorflow/tfjs-node-gpu')
    } catch (error) {
      const message = messageOf(error).split('\n')[0]
      throw new Error(`${/can not be found at path/.test(message) ? 'its binding is not built' : message} (set it up: npm run native)`)
    }
    await use('tensorflow')
    const { binding, isUsingGpuDevice: gpu } = tf.backend() as unknown as { binding: { TF_Version: string }; isUsingGpuDevice: boolean }
    return {
      tensorflowVersion: binding.TF_Version,
      threads: Number(process.env.TF_NUM_INTRAOP_THREADS),
      device: gpu ? nvidiaGpus()[0]?.name ?? 'GPU' : processor(),
      gpu,
    }
  },

  async webgpu() {
    const { create, globals } = await optional<{ create(options: string[]): Gpu; globals: object }>('webgpu')
    Object.assign(globalThis, globals)
    const gpu = create([])
    const adapter = await gpu.requestAdapter()
    if (!adapter) throw new Error('no GPU driver (Vulkan, Metal or Direct3D 12) was found')
    Object.defineProperty(globalThis, 'navigator', { value: { gpu }, configurable: true, writable: true })
    await optional('@tensorflow/tfjs-backend-webgpu')
    await use('webgpu')
    const { description, vendor, architecture, isFallbackAdapter } = adapter.info
    return { tensorflowVersion: null, threads: 1, device: description || `${vendor} ${architecture}`, gpu: !isFallbackAdapter }
  },

  async wasm() {
    const wasm = require('@tensorflow/tfjs-backend-wasm') as typeof import('@tensorflow/tfjs-backend-wasm')
    if (tf.findBackend('wasm') === null) wasm.setWasmPaths(`${dirname(require.resolve('@tensorflow/tfjs-backend-wasm'))}/`)
    await use('wasm')
    return { tensorflowVersion: null, threads: 1, device: processor(), gpu: false }
  },

  async cpu() {
    await use('cpu')
    // tfjs would advise, on standard error, to install another engine.
    ;(tf.backend() as unknown as { firstUse: boolean }).firstUse = false
    return { tensorflowVersion: null, threads: 1, device: processor(), gpu: false }
  },
}

/** Read by TensorFlow when it is loaded; what the user has set stays. */
const tensorflowSettings = {
  TF_CPP_MIN_LOG_LEVEL: '2',
  TF_NUM_INTRAOP_THREADS: String(availableParallelism()),
  // On a GPU: the same sums in the same order every time, float32 products in float32, and memory as needed instead of all at once.
  TF_DETERMINISTIC_OPS: '1',
  NVIDIA_TF32_OVERRIDE: '0',
  TF_FORCE_GPU_ALLOW_GROWTH: 'true',
}

/**
 * A signal inside oneDNN's AVX-512 matrix product corrupts the heap (scripts/native/shield.cc, which keeps signals away from the threads that
 * compute). Without that addon oneDNN is held to AVX2, which is safe and takes twice as long on a CPU with AVX-512.
 */
const shieldFromSignals = (folder: string): void => {
  if (existsSync(join(folder, 'shield.node'))) require(join(folder, 'shield.node'))
  else process.env.ONEDNN_MAX_CPU_ISA ??= 'AVX2'
}

/** Load TensorFlow's libraries without what they print about themselves meanwhile, unless TF_CPP_MIN_LOG_LEVEL=0 asks for all of it. */
const loadQuietly = (folder: string): void => {
  if (process.env.TF_CPP_MIN_LOG_LEVEL === '0' || !existsSync(join(folder, 'quiet.node'))) return
  const restore = require(join(folder, 'quiet.node')) as () => void
  try {
    require(join(folder, 'tfjs_binding.node'))
  } finally {
    restore()
  }
}

/** What is used of WebGPU's `navigator.gpu`. */
interface Gpu {
  requestAdapter(): Promise<{ info: { description: string; vendor: string; architecture: string; isFallbackAdapter?: boolean } } | null>
}

const optional = async <T>(name: string): Promise<T> => {
  try {
    return await import(name) as T
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new Error(`${name} is not installed (npm i --no-save webgpu@0.6.2 @tensorflow/tfjs-backend-webgpu@${tf.version_core})`)
  }
}

const use = async (backend: string): Promise<void> => {
  if (!await tf.setBackend(backend)) throw new Error(`tfjs could not start its ${backend} backend`)
}

const processor = (): string => cpus()[0]?.model.trim() || process.arch
