import type { Command } from 'commander'
import type { Generated } from '../train/generate.js'
import { oneLine } from '../util/errors.js'
import { chatHelp, numberIn, several, type PromptOptions } from './promptOptions.js'

interface Options extends PromptOptions {
  readonly model: string
  readonly adapter?: string
  readonly samples: number
  readonly maxTokens: number
  readonly temperature: number
  readonly topP: number
  readonly topK?: number
  readonly stop?: readonly string[]
  readonly seed: number
  readonly engine?: string
  readonly json?: boolean
}

/** `teamtr generate`: continue texts with a model. */
export const addGenerate = (program: Command): void => {
  program
    .command('generate')
    .description('continue texts or conversations with a model, all prompts in one batch')
    .requiredOption('--model <model>', 'a Hugging Face folder, a GGUF file, or the name of a pulled model (teamtr pull)')
    .option('--adapter <folder>', 'a PEFT adapter (LoRA) on it')
    .option('--text <text>', 'a prompt; may be given several times', several)
    .option('--ids <ids>', 'a prompt as token ids with commas between; may be given several times', several)
    .option('--chat <file>', 'a conversation as JSON, in the model\'s chat template; may be given several times', several)
    .option('--samples <n>', 'continuations of each prompt', numberIn(1, 10_000, true), 1)
    .option('--max-tokens <n>', 'longest continuation, in tokens', numberIn(1, 1_000_000, true), 128)
    .option('--temperature <t>', '0 takes the most probable token each time', numberIn(0, 100), 1)
    .option('--top-p <p>', 'only the most probable tokens that together have this probability', numberIn(1e-9, 1), 1)
    .option('--top-k <k>', 'only the k most probable tokens', numberIn(1, 1e9, true))
    .option('--stop <text>', 'a text that ends a continuation; may be given several times', several)
    .option('--seed <n>', 'the same seed gives the same texts on the same engine', numberIn(0, 2 ** 31 - 1, true), 0)
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print a JSON line for each continuation')
    .addHelpText('after', `
Temperature comes first, then top-k, then top-p. With --json, logProbs are those of the model itself (no temperature, nothing left out),
samplingLogProbs those of the distribution the tokens were drawn from; "finish" says what ended the text: a token of the model ("end"),
a stop text ("stop"), or --max-tokens ("length").

${chatHelp}

Examples:
  teamtr generate --model smollm2 --text "Once upon a time" --max-tokens 40 --temperature 0
  teamtr generate --model smollm2 --chat question.json --samples 4 --temperature 0.7 --top-p 0.9 --seed 1`)
    .action(run)
}

const run = async (options: Options): Promise<void> => {
  const { initEngine } = await import('../train/backend.js')
  const { loadModel } = await import('../train/languageModel.js')
  const { generate } = await import('../train/generate.js')
  const { random } = await import('../util/random.js')
  const { promptIds } = await import('./prompts.js')
  await initEngine(options.engine)
  const model = loadModel(options.model, options.adapter)
  const given = promptIds(model.tokenizer, model.source.config.vocabulary, options)
  const prompts = given.flatMap((prompt) => Array.from({ length: options.samples }, () => prompt))
  const { maxTokens, temperature, topP, topK, stop, seed } = options
  const started = performance.now()
  const texts = await generate(model, prompts, { maxTokens, temperature, topP, topK, stop, random: random(seed) })
  const seconds = (performance.now() - started) / 1000
  texts.forEach((text, i) => {
    const [prompt, sample] = [Math.floor(i / options.samples), i % options.samples]
    process.stdout.write(
      options.json
        ? `${JSON.stringify({ prompt, sample, ...text })}\n`
        : readable(text, texts.length > 1 ? `prompt ${prompt + 1}, sample ${sample + 1}` : ''),
    )
  })
  const tokens = texts.reduce((sum, { tokens }) => sum + tokens.length, 0)
  if (!options.json && process.stderr.isTTY)
    process.stderr.write(`${tokens} tokens in ${seconds.toFixed(1)} s, ${(tokens / seconds).toFixed(1)} per second\n`)
  model.dispose()
}

const readable = ({ text, finish }: Generated, label: string): string =>
  `${label && `── ${label}${finish === 'length' ? ' (cut at --max-tokens)' : ''}\n`}${shown(text)}\n`

/** What a model wrote, as it may be shown on a terminal: lines and tabs, other control characters as escapes. */
const shown = (text: string): string => text.split(/([\n\t])/).map((part) => (/^[\n\t]$/.test(part) ? part : oneLine(part))).join('')
