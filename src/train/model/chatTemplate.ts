/**
 * Chat templates: Jinja, as models bring them, rendered by @huggingface/jinja. They are untrusted: bounded in length, loops, time and
 * output.
 */
import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'
import { InputError, messageOf } from '../../util/errors.js'
import { withTimeLimit } from '../../util/timeLimit.js'

/** One turn of a conversation; templates may read further fields. */
export interface ChatMessage {
  readonly role: string
  readonly content: string
  readonly [field: string]: unknown
}

export interface ChatOptions {
  /** End with the header of the assistant's turn, so that the model writes it. Default true. */
  readonly addGenerationPrompt?: boolean
  /** Further variables that the template reads, for example `enable_thinking` or `date_string`. */
  readonly variables?: Readonly<Record<string, unknown>>
}

/** A template, ready to render messages. @throws InputError when the template refuses the messages, fails, or takes too long */
export type ChatTemplate = (messages: readonly ChatMessage[], options?: ChatOptions) => string

const MAX_TEMPLATE = 2 ** 20
const MAX_RANGE = 100_000
const MAX_OUTPUT = 64 * 2 ** 20
const SECONDS = 2

/**
 * Compile a template. It sees what `transformers` gives it (`messages`, `add_generation_prompt`, `tools` and `documents` as none, the
 * special tokens), but no clock: `strftime_now` is not defined, so that the same messages always give the same prompt. A template that
 * dates its prompts takes `date_string` as a variable.
 *
 * @param tokens special tokens by name, for example `bos_token`
 * @param where what the template came from, for messages
 * @throws InputError for a template that is too long or no Jinja
 */
export const chatTemplate = (source: string, tokens: Readonly<Record<string, string>>, where: string): ChatTemplate => {
  if (source.length > MAX_TEMPLATE) throw new InputError(`${where}: ${source.length} characters; at most ${MAX_TEMPLATE} are read`)
  const program = guarded(where, () => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })))
  return (messages, { addGenerationPrompt = true, variables = {} } = {}) => {
    const environment = new Environment()
    const given = {
      ...globals, tools: null, documents: null, ...tokens, ...variables, messages, add_generation_prompt: addGenerationPrompt,
    }
    for (const [name, value] of Object.entries(given)) environment.set(name, value)
    const text = guarded(where, () => String(new Interpreter(environment).run(program).value))
    if (text.length > MAX_OUTPUT) throw new InputError(`${where}: renders ${text.length} characters; at most ${MAX_OUTPUT} are taken`)
    return text
  }
}

const guarded = <T>(where: string, f: () => T): T => {
  try {
    return withTimeLimit(where, SECONDS, f)
  } catch (error) {
    throw error instanceof InputError ? error : new InputError(`${where}: ${messageOf(error).split('\n')[0]}`)
  }
}

const range = (from: number, to?: number, step = 1): number[] => {
  const [start, stop] = to === undefined ? [0, from] : [from, to]
  const count = Math.ceil((stop - start) / step)
  if (step === 0 || !(count <= MAX_RANGE)) throw new Error(`range of ${count} numbers; at most ${MAX_RANGE} are allowed`)
  return Array.from({ length: Math.max(0, count) }, (_, i) => start + i * step)
}

/** What every template may use. */
const globals = {
  true: true, True: true, false: false, False: false, none: null, None: null,
  range,
  raise_exception: (message: string) => {
    throw new Error(`the template refuses: ${message}`)
  },
}
