import { z } from 'zod'
import { InputError, messageOf } from './errors.js'
import { endpoint, post, type PostOptions } from './post.js'
import { validate } from './validate.js'

/** How to reach a model behind an OpenAI-compatible server. */
export interface ChatOptions extends PostOptions {
  /** Up to and without `/chat/completions`, for example `http://localhost:8000/v1`. http or https. */
  readonly baseUrl: string
  readonly model: string
  readonly temperature?: number
  readonly topP?: number
  readonly maxTokens?: number
}

const completion = z.object({ choices: z.array(z.object({ message: z.object({ content: z.string() }) })).min(1) })

/**
 * A model as text in, text out: one user message, one completion.
 *
 * @throws InputError at once for a base URL that is none; from a call when the server refuses, answers
 * in another form, or cannot be reached in any attempt
 */
export const chat = (options: ChatOptions): ((prompt: string) => Promise<string>) => {
  const { model, temperature, topP, maxTokens } = options
  const url = endpoint(options.baseUrl, 'chat/completions')
  return async (prompt) => {
    const posted = await post(url, { model, messages: [{ role: 'user', content: prompt }], temperature, top_p: topP, max_tokens: maxTokens }, options)
    if ('error' in posted) throw new InputError(`${url}: ${posted.error}`)
    try {
      return validate(completion, JSON.parse(posted.text), 'answer').choices[0].message.content
    } catch (error) {
      throw new InputError(`${url}: answers something else than a chat completion: ${messageOf(error)}`)
    }
  }
}
