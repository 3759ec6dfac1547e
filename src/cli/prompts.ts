import { z } from 'zod'
import type { TextTokenizer } from '../train/model/tokenizer.js'
import { InputError } from '../util/errors.js'
import { readJson } from '../util/files.js'
import { validate } from '../util/validate.js'
import type { PromptOptions } from './promptOptions.js'

const message = z.looseObject({ role: z.string(), content: z.string() })
const conversation = z.union(
  [
    z
      .array(message)
      .min(1)
      .transform((messages) => ({ messages, addGenerationPrompt: true, variables: {} })),
    z
      .strictObject({
        messages: z.array(message).min(1),
        add_generation_prompt: z.boolean().default(true),
        variables: z.record(z.string(), z.unknown()).default({}),
      })
      .transform(({ messages, variables, add_generation_prompt: addGenerationPrompt }) => ({ messages, addGenerationPrompt, variables })),
  ],
  { error: 'expected messages, or {messages, add_generation_prompt, variables}' },
)

/**
 * Prompts as token ids: texts with the tokens that the model puts around them, ids as they are, chats as their template writes them.
 *
 * @param vocabulary ids that the model has a row for
 * @throws InputError when there is no prompt, or one is empty or malformed
 */
export const promptIds = (tokenizer: TextTokenizer, vocabulary: number, { text = [], ids = [], chat = [] }: PromptOptions): number[][] => {
  const prompts = [
    ...text.map((given) => tokenizer.encode(given, { specials: true })),
    ...ids.map((given) => givenIds(given, vocabulary)),
    ...chat.map((file) => {
      const { messages, ...options } = validate(conversation, readJson(file), file)
      return tokenizer.encode(tokenizer.chat(messages, options))
    }),
  ]
  if (prompts.length === 0) throw new InputError('one of --text, --ids, --chat is needed')
  if (prompts.some(({ length }) => length === 0)) throw new InputError('a prompt has no tokens: this model puts none around an empty text')
  return prompts
}

const givenIds = (text: string, vocabulary: number): number[] =>
  text.split(',').map((part) => {
    const id = /^\s*\d{1,8}\s*$/.test(part) ? Number(part) : NaN
    if (!(id < vocabulary)) {
      throw new InputError(`--ids: holds ${JSON.stringify(part)}; expected token ids, 0 to ${vocabulary - 1}, with commas between`)
    }
    return id
  })
