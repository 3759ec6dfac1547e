import type { Command } from 'commander'
import type { TextTokenizer } from '../train/model/tokenizer.js'
import type { Logits } from '../train/languageModel.js'
import { InputError, oneLine } from '../util/errors.js'
import { textTable } from '../util/table.js'
import { chatHelp, several, type PromptOptions } from './promptOptions.js'

interface Options extends PromptOptions {
  readonly model: string
  readonly adapter?: string
  readonly engine?: string
  readonly json?: boolean
}

/** `teamtr logits`: what a model says of a text, token by token. */
export const addLogits = (program: Command): void => {
  program
    .command('logits')
    .description('log-probabilities of a text under a model, token by token, and the logits after it')
    .requiredOption('--model <model>', 'a Hugging Face folder, a GGUF file, or the name of a pulled model (teamtr pull)')
    .option('--adapter <folder>', 'a PEFT adapter (LoRA) on it')
    .option('--text <text>', 'the text; the model\'s own begin token, if it has one, comes first', several)
    .option('--ids <ids>', 'token ids with commas between', several)
    .option('--chat <file>', 'a conversation as JSON, in the model\'s chat template', several)
    .option('--engine <name>', 'tensorflow, webgpu, wasm or cpu (default: $TEAMTR_ENGINE, else the fastest that is set up)')
    .option('--json', 'print {ids, next_logprobs, last_logits} as JSON; of several prompts, a line each')
    .addHelpText('after', `
Entry i of next_logprobs is log p(ids[i+1] | ids[0..i]) (natural logarithm, no temperature), so there is one fewer than ids;
last_logits are the logits of the whole vocabulary after the last id.

${chatHelp}

Examples:
  teamtr logits --model smollm2 --text "The capital of France is"
  teamtr logits --model ../shared/models/tiny-llama --adapter ../shared/models/tiny-llama/adapter --ids 379,64,65 --json`)
    .action(logits)
}

const logits = async (options: Options): Promise<void> => {
  const { initEngine } = await import('../train/backend.js')
  const { loadModel, sequenceLogits } = await import('../train/languageModel.js')
  const { promptIds } = await import('./prompts.js')
  await initEngine(options.engine)
  const model = loadModel(options.model, options.adapter)
  const { tokenizer, source } = model
  const { vocabulary, maxPositions } = source.config
  const prompts = promptIds(tokenizer, vocabulary, options)
  for (const { length } of prompts)
    if (length > maxPositions) throw new InputError(`prompt: ${length} tokens; the model has ${maxPositions} positions`)
  for (const ids of prompts) {
    const result = await sequenceLogits(model, ids)
    process.stdout.write(`${options.json ? JSON.stringify(result) : readable(result, tokenizer)}\n`)
  }
  model.dispose()
}

const SHOWN = 10

const readable = ({ ids, next_logprobs, last_logits }: Logits, tokenizer: TextTokenizer): string => {
  const token = (id: number): string => oneLine(JSON.stringify(tokenizer.decode([id], { specials: true })))
  const said = ids.map((id, i) => [token(id), String(id), i === 0 ? '' : next_logprobs[i - 1].toFixed(4)])
  const top = Math.max(...last_logits)
  const normaliser = top + Math.log(last_logits.reduce((sum, x) => sum + Math.exp(x - top), 0))
  const next = [...last_logits.keys()].sort((a, b) => last_logits[b] - last_logits[a]).slice(0, SHOWN)
  const sum = next_logprobs.reduce((a, b) => a + b, 0)
  return [
    textTable(['token', 'id', 'log p'], said),
    '',
    `log-probability of the text ${sum.toFixed(4)}${ids.length > 1 ? `, per token ${(sum / (ids.length - 1)).toFixed(4)}` : ''}`,
    '',
    textTable(
      [`next (the ${next.length} most probable)`, 'id', 'logit', 'log p'],
      next.map((id) => [token(id), String(id), last_logits[id].toFixed(4), (last_logits[id] - normaliser).toFixed(4)]),
    ),
  ].join('\n')
}
