/** What this machine offers to compute with, asked of the system; nothing here loads TensorFlow. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

export interface NvidiaGpu {
  readonly name: string
  /** MiB. */
  readonly memory: number
}

/** The NVIDIA GPUs that the driver reports; none where there is no driver. */
export const nvidiaGpus = (): NvidiaGpu[] => {
  const listing = output('nvidia-smi', ['--query-gpu=name,memory.total', '--format=csv,noheader,nounits'])
  return listing.split('\n').flatMap((line) => {
    const [name, memory] = line.split(',').map((field) => field.trim())
    return name && Number(memory) > 0 ? [{ name, memory: Number(memory) }] : []
  })
}

/** How `npm run native` set up the native engine; undefined where it did not. */
export interface NativeBuild {
  readonly variant: 'cpu' | 'gpu'
  readonly tensorflow: string
  /** The cache folder with TensorFlow's libraries, and CUDA's in the GPU build. */
  readonly libraries: string
}

export const nativeBuild = (): NativeBuild | undefined => {
  try {
    return JSON.parse(readFileSync(join(nativeFolder() ?? '', 'teamtr.json'), 'utf8')) as NativeBuild
  } catch {
    return undefined
  }
}

/** Where the native engine's binding lies; undefined where there is none. */
export const nativeFolder = (): string | undefined => {
  try {
    const home = dirname(createRequire(import.meta.url).resolve('@tensorflow/tfjs-node-gpu/package.json'))
    const name = readdirSync(join(home, 'lib')).filter((name) => name.startsWith('napi-v')).at(-1)
    return name && join(home, 'lib', name)
  } catch {
    return undefined
  }
}

/** The driver's library and those of CUDA 12 that TensorFlow 2.21 loads by name. */
const cudaNames = [
  'libcuda.so.1', 'libcudart.so.12', 'libcublas.so.12', 'libcublasLt.so.12', 'libcudnn.so.9', 'libcufft.so.11', 'libcurand.so.10',
  'libcusolver.so.11', 'libcusparse.so.12', 'libcupti.so.12', 'libnccl.so.2', 'libnvJitLink.so.12', 'libnvrtc.so.12',
]

export interface CudaLibrary {
  readonly name: string
  /** Where it is; null when missing. */
  readonly path: string | null
}

/** Which CUDA libraries TensorFlow would find: in the GPU build's cache folder, in LD_LIBRARY_PATH, in the system's own folders. */
export const cudaLibraries = (libraries: string | undefined): CudaLibrary[] => {
  const folders = [
    ...list(libraries && join(libraries, 'nvidia')).map((name) => join(libraries!, 'nvidia', name, 'lib')),
    ...(process.env.LD_LIBRARY_PATH ?? '').split(':').filter(Boolean),
  ]
  const found = new Map(folders.flatMap((folder) => list(folder).map((name) => [name, join(folder, name)] as const)).reverse())
  const listed = output('/sbin/ldconfig', ['-p']).matchAll(/^\s*(\S+) .*=> (.+)$/gm)
  const system = new Map([...listed].map(([, name, path]) => [name, path] as const))
  return cudaNames.map((name) => ({ name, path: found.get(name) ?? system.get(name) ?? null }))
}

const list = (folder: string | undefined): string[] => {
  try {
    return folder ? readdirSync(folder) : []
  } catch {
    return []
  }
}

/** What a program prints; '' when it cannot be run. */
const output = (program: string, args: string[]): string => {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 10_000 })
  } catch {
    return ''
  }
}
