import { z } from 'zod'

/** An agent that is a language model, as team.json and a training configuration name it. */
export const agentSchema = z.strictObject({
  /** What the agent is called; default: its number. */
  name: z.string().min(1).max(100).optional(),
  /** A Hugging Face folder or GGUF file, relative to the file that this stands in, or the name of a pulled model. */
  model: z.string().min(1),
  /** A PEFT folder, relative to the file; none: the model as it is. */
  adapter: z.string().min(1).optional(),
  /** The role prompt: the content of the system message. */
  role: z.string().max(100_000).optional(),
})

/** One agent of a team: where its model and adapter lie (absolute paths, or the name of a pulled model), and its role. */
export type TeamFileAgent = z.output<typeof agentSchema>

/** The agents of a team, each by another name. */
export const agentsSchema = z.array(agentSchema).min(1).max(64).superRefine((agents, context) => {
  agents.forEach(({ name }, i) => {
    const first = agents.findIndex((other) => other.name === name)
    if (name !== undefined && first < i) {
      context.addIssue({ code: 'custom', path: [i, 'name'], input: name, message: `agent ${first} has that name already; one for each is needed` })
    }
  })
})
