import { InvalidArgumentError } from 'commander'

/** The three ways to give a language model something to read. */
export interface PromptOptions {
  readonly text?: readonly string[]
  readonly ids?: readonly string[]
  readonly chat?: readonly string[]
}

/** What --help says of a --chat file. */
export const chatHelp = `A chat file is JSON: an array of {"role", "content"}, or {"messages", "add_generation_prompt", "variables"};
it is rendered with the model's chat template.`

/** For options that may be given several times. */
export const several = (value: string, before: readonly string[] = []): string[] => [...before, value]

/** For commander: a whole number in plain digits, from `least` on. */
export const wholeFrom = (least: number, most = 999_999_999) => (text: string): number => {
  const value = Number(text)
  if (!/^(0|[1-9]\d{0,8})$/.test(text) || value < least || value > most) throw new InvalidArgumentError(`expected a whole number, ${least} to ${most}`)
  return value
}

/** For commander: a number in [low, high], or a whole one. */
export const numberIn = (low: number, high: number, whole = false) => (text: string): number => {
  const value = Number(text)
  if (text.trim() === '' || !(value >= low && value <= high) || (whole && !Number.isInteger(value))) {
    throw new InvalidArgumentError(`expected a ${whole ? 'whole ' : ''}number, ${low} to ${high}`)
  }
  return value
}
