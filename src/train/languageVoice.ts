/** How language models read the shared context and write into it: the team's protocol, in each model's own chat template and tokens. */
import type { Protocol } from './config.js'
import { firstStop, stopWindow } from './generate.js'
import type { TextTokenizer } from './model/tokenizer.js'
import type { Voice } from './voice.js'

/** What is said to a model: its role as the system message, and the shared context as the user's; as plain text where it has no template. */
export const promptFor = (
  tokenizer: TextTokenizer, role: string, context: string, { chatTemplate = true, cue = '\n\n', enableThinking = null }: Partial<Pick<Protocol, 'chatTemplate' | 'cue' | 'enableThinking'>> = {},
): number[] => {
  if (!chatTemplate || tokenizer.files.template === undefined) return tokenizer.encode(`${role && `${role}\n\n`}${context}${cue}`, { specials: true })
  const messages = [...(role ? [{ role: 'system', content: role }] : []), { role: 'user', content: context }]
  return tokenizer.encode(tokenizer.chat(messages, enableThinking === null ? {} : { variables: { enable_thinking: enableThinking } }))
}

/** @param own the agent's own role prompt */
export const languageVoice = (tokenizer: TextTokenizer, protocol: Protocol, own = ''): Voice => {
  const { taskRole, ownRole, stop: stops, thinking, thinkingTags } = protocol
  const [open, close] = thinkingTags
  const ends = new Set(tokenizer.stopTokens)
  const seen = stops.length ? stopWindow(stops) : 0
  const prompt = (context: string, role = ''): number[] =>
    promptFor(tokenizer, [ownRole ? own : '', taskRole ? role : ''].filter(Boolean).join('\n\n'), context, protocol)
  const decode = withTags(tokenizer, thinkingTags)
  // Some templates open the thoughts themselves, so that a message begins inside of them.
  const beginsInside = thinking === 'strip' && decode(prompt('')).trimEnd().endsWith(open)
  return {
    endToken: tokenizer.endToken,
    stopTokens: tokenizer.stopTokens,
    ...(seen > 0 && { stop: (tokens) => firstStop(tokenizer.decode(tokens.slice(-seen)), stops) >= 0 }),
    prompt,
    text: (tokens) => {
      const whole = decode(ends.has(tokens.at(-1) ?? -1) ? tokens.slice(0, -1) : tokens)
      const at = firstStop(whole, stops)
      const said = at < 0 ? whole : whole.slice(0, at)
      return thinking === 'keep' ? said : withoutThoughts(beginsInside ? open + said : said, open, close)
    },
  }
}

/** A text without what stands between the tags, and without the rest of it where they are not closed. */
export const withoutThoughts = (text: string, open: string, close: string): string => {
  const from = text.indexOf(open)
  if (from < 0) return text
  const to = text.indexOf(close, from + open.length)
  const before = text.slice(0, from)
  if (to < 0) return before
  return before + withoutThoughts(text.slice(to + close.length).trimStart(), open, close)
}

/** Decoding without special tokens, but with the tags, which are special tokens of some models. */
const withTags = (tokenizer: TextTokenizer, tags: readonly string[]) => {
  const special = new Map(tags.flatMap((tag) => {
    const id = tokenizer.id(tag)
    return id !== undefined && tokenizer.decode([id]) === '' ? [[id, tag] as const] : []
  }))
  return (tokens: readonly number[]): string => {
    let [text, from] = ['', 0]
    for (const [i, token] of tokens.entries()) {
      if (!special.has(token)) continue
      text += tokenizer.decode(tokens.slice(from, i)) + special.get(token)!
      from = i + 1
    }
    return text + tokenizer.decode(tokens.slice(from))
  }
}
