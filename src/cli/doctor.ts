import { Option, type Command } from 'commander'
import { freemem, totalmem } from 'node:os'
import type { Engine } from '../train/backend.js'
import type { CudaLibrary, NativeBuild, NvidiaGpu } from '../train/devices.js'
import type { MatmulRate } from '../train/matmulRate.js'

interface Options {
  require?: 'native' | 'gpu'
  engine?: string
  json?: boolean
}

/** `teamtr doctor`: what computes here, how fast, and what a faster set-up would need. */
export const addDoctor = (program: Command): void => {
  program
    .command('doctor')
    .description('say which engine computes here, why, how fast, and what a faster set-up would need')
    .addOption(new Option('--require <what>', 'exit with 1 unless the native engine, or a GPU, is what runs').choices(['native', 'gpu']))
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print JSON')
    .action(doctor)
}

const doctor = async (options: Options): Promise<void> => {
  const { initEngine } = await import('../train/backend.js')
  const { cudaLibraries, nativeBuild, nvidiaGpus } = await import('../train/devices.js')
  const { matmulRate } = await import('../train/matmulRate.js')

  const engine = await initEngine(options.engine)
  const build = nativeBuild()
  const report: Report = {
    engine,
    build,
    gpus: nvidiaGpus(),
    cuda: cudaLibraries(build?.libraries),
    memory: { total: totalmem(), free: freemem() },
    matmul: await matmulRate(),
  }
  const advice = faster(report)
  const met = options.require === undefined || (options.require === 'gpu' ? engine.gpu : engine.name === 'tensorflow')

  if (options.json) process.stdout.write(`${JSON.stringify({ ...report, faster: advice, met }, null, 2)}\n`)
  else process.stdout.write(`${text(report, advice)}\n`)
  if (!met) {
    process.stderr.write(`teamtr: --require ${options.require}: the ${engine.name} engine runs on ${engine.device}\n`)
    process.exitCode = 1
  }
}

interface Report {
  readonly engine: Engine
  readonly build: NativeBuild | undefined
  readonly gpus: readonly NvidiaGpu[]
  readonly cuda: readonly CudaLibrary[]
  /** Bytes. */
  readonly memory: { readonly total: number; readonly free: number }
  readonly matmul: MatmulRate
}

const text = ({ engine, build, gpus, cuda, memory, matmul }: Report, advice: string): string => {
  const found = cuda.filter(({ path }) => path).map(({ name }) => name)
  const missing = cuda.filter(({ path }) => !path).map(({ name }) => name)
  const kind = build ? ` (${build.variant === 'gpu' ? 'CUDA' : 'CPU'} build)` : ''
  const rows: [string, string][] = [
    ['engine', [engine.name, engine.tensorflowVersion && `TensorFlow ${engine.tensorflowVersion}${kind}`, `tfjs ${engine.tfjsVersion}`]
      .filter(Boolean).join(', ')],
    ['why', engine.why],
    ['device', `${engine.device} (${engine.gpu ? 'GPU' : `CPU, ${engine.threads} thread${engine.threads > 1 ? 's' : ''}`})`],
    ['memory', `${gibibytes(memory.total)} (${gibibytes(memory.free)} free)`],
    ['NVIDIA GPU', gpus.map(({ name, memory }) => `${name}, ${gibibytes(memory * 2 ** 20)}`).join('; ') || 'none that nvidia-smi reports'],
    ['CUDA found', found.join(' ') || 'none'],
    ['CUDA missing', missing.join(' ') || 'none'],
    ['matmul', `${significant(matmul.gflops)} GFLOP/s (float32, ${matmul.size}³, median of ${matmul.runs})`],
    ['faster', advice],
  ]
  return rows.map(([label, value]) => `${label.padEnd(14)}${value}`).join('\n')
}

/** What would compute faster here. */
const faster = ({ engine, build, gpus, cuda }: Report): string => {
  if (engine.gpu) return 'nothing: a GPU computes'
  const chosen = engine.why.startsWith('asked')
  if (engine.name !== 'tensorflow') return chosen ? 'leave out --engine and TEAMTR_ENGINE: the fastest engine is taken then' : 'npm run native'
  if (gpus.length === 0) return 'an NVIDIA GPU, then: npm run native -- --gpu'
  if (build?.variant !== 'gpu') return 'npm run native -- --gpu'
  const missing = cuda.filter(({ path }) => !path).map(({ name }) => name)
  return missing.length > 0
    ? `the missing CUDA libraries: ${missing.join(' ')}`
    : 'GPU and CUDA are found, but TensorFlow does not use them: TF_CPP_MIN_LOG_LEVEL=0 teamtr doctor shows why'
}

const gibibytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`
const significant = (x: number): string => (x >= 100 ? String(Math.round(x)) : x.toPrecision(2))
