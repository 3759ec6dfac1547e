import { InputError } from '../util/errors.js'
import { didYouMean } from '../util/validate.js'
import type { Benchmark } from './benchmark.js'

/** One line a benchmark: its module is loaded when it is asked for. */
const registry: Readonly<Record<string, () => Promise<Benchmark>>> = {
  aime2024: async () => (await import('./math/datasets.js')).aime2024,
  aime2025: async () => (await import('./math/datasets.js')).aime2025,
  math500: async () => (await import('./math/datasets.js')).math500,
  'dapo-math-17k': async () => (await import('./math/datasets.js')).dapoMath,
  deepscaler: async () => (await import('./math/datasets.js')).deepscaler,
  autologi: async () => (await import('./autologi/autologi.js')).autologi,
  zebralogic: async () => (await import('./zebralogic/zebralogic.js')).zebralogic,
  'ar-bench-gn': async () => (await import('./ar-bench/guessingNumbers.js')).guessingNumbers,
  'ar-bench-dc': async () => (await import('./ar-bench/detectiveCases.js')).detectiveCases,
  'ar-bench-sp': async () => (await import('./ar-bench/situationPuzzles.js')).situationPuzzles,
  planbench: async () => (await import('./planbench/index.js')).planbench,
}

/** The names that `benchmark` knows. */
export const benchmarkNames: readonly string[] = Object.keys(registry)

/** @throws InputError when there is no benchmark of that name */
export const benchmark = async (name: string): Promise<Benchmark> => {
  if (!Object.hasOwn(registry, name)) {
    throw new InputError(`--benchmark: holds "${name}"${didYouMean(name, benchmarkNames)}; expected one of ${benchmarkNames.join(', ')}`)
  }
  return registry[name]()
}
