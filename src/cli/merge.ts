import { Option, type Command } from 'commander'
import { dtypes, type Dtype } from '../train/model/dtypes.js'

interface Options {
  readonly model: string
  readonly adapter?: string
  readonly out: string
  readonly dtype?: Dtype
}

/** `teamtr merge`: an adapter's product added to its base, as a folder that transformers loads. */
export const addMerge = (program: Command): void => {
  program
    .command('merge')
    .description('write a model, with an adapter merged into it, as a Hugging Face folder')
    .requiredOption('--model <model>', 'a Hugging Face folder, a GGUF file, or the name of a pulled model (teamtr pull)')
    .option('--adapter <folder>', 'a PEFT adapter (LoRA) on it; without one the model is converted as it is')
    .requiredOption('--out <folder>', 'the new folder: config.json, model.safetensors, tokenizer')
    .addOption(new Option('--dtype <type>', 'how weights are stored (default: as they are; float32 for a quantised one)').choices(dtypes))
    .addHelpText('after', `
Weights become W + (alpha/r) B A, computed in float64 and rounded once to --dtype.

Example: teamtr merge --model smollm2 --adapter runs/smollm2-team/adapters/agent-0 --out merged`)
    .action(merge)
}

const merge = async ({ model, adapter, out, dtype }: Options): Promise<void> => {
  const { openModel } = await import('../train/model/source.js')
  const { readAdapter } = await import('../train/languageModel.js')
  const { writeMerged } = await import('../train/model/writeHub.js')
  const source = openModel(model)
  writeMerged(out, source, adapter === undefined ? undefined : readAdapter(adapter, source), dtype)
  process.stdout.write(`${out}\n`)
}
