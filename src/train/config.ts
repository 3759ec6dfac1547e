import { z } from 'zod'
import { InputError } from '../util/errors.js'
import { show, validate } from '../util/validate.js'
import { limitsOf, taskSchema } from './environment.js'
import { methodNamed, methodNames, withDefaultsOfMethod } from './methods.js'
import { decoderSizes } from './model/config.js'
import { peftName, projections } from './model/projections.js'
import { agentsSchema, type TeamFileAgent } from './teamSchema.js'

/** Where an update's rollouts come from, and what happens to one that ends outside its trust region. */
const methodSettings = z.strictObject({
  /** `intermediate`: from the team as it is before this very update; `stale`: from the team at the start of the stage. */
  occupancy: z.enum(['intermediate', 'stale']),
  /** With intermediate occupancy: sample anew before every so many updates of a stage. */
  resampleEvery: z.int().min(1).max(64),
  /** With stale occupancy: what stands in for fresh rollouts (src/train/advantage.ts). */
  correction: z.enum(['none', 'compound', 'importance']),
  /** One agent after the other, or all at once on the ratio of the whole episode. */
  update: z.enum(['sequential', 'joint']),
  /** `scale` it back until its measured divergence holds, `refuse` it whole, or `none`: take it as it is. */
  acceptance: z.enum(['scale', 'refuse', 'none']),
})
export type MethodSettings = z.output<typeof methodSettings>

const methodSchema = z
  .union([z.string(), methodSettings.partial().extend({ name: z.string().default('teamtr') })], {
    error: `expected a method's name (${methodNames.join(', ')}), or {name, ${Object.keys(methodSettings.shape).join(', ')}}`,
  })
  .transform((given, context) => {
    const { name, ...settings } = typeof given === 'string' ? { name: given } : given
    const method = methodNamed(name)?.method
    if (method) return { name, ...method, ...settings }
    context.addIssue({ code: 'custom', message: `expected one of ${methodNames.join(', ')}`, input: given })
    return z.NEVER
  })

const count = z.int().min(1).max(1e6)
const section = <S extends z.ZodRawShape>(shape: S) => z.strictObject(shape).prefault({} as never)

const { layers, hidden, heads, intermediate } = decoderSizes

/** A team that is not new: that of another run at its end, with one agent in the place of another, or one more (replacement.ts). */
const startSchema = z.strictObject({
  /** The run's folder. */
  run: z.string().min(1),
  /** The agent that is new; as many as that run has agents: it is added. */
  agent: z.int().min(0),
  /** Whom it is: an agent of a run at its end. null: a decoder of its size in `team.models`, warmed up as `warmup` says. */
  with: z.strictObject({ run: z.string().min(1), agent: z.int().min(0) }).nullable().default(null),
  /** What its warm-up follows from. Default: `seed`. */
  seed: z.int().min(0).max(2 ** 31 - 1).optional(),
  /** Stage 0: the new agent's messages are drawn to those of the old one (align.ts). */
  align: section({
    /** Contexts from the occupancy of the team as it was; 0: the new agent comes as it is. */
    contexts: z.int().min(0).max(1e6).default(500),
    /** Of Adam. */
    steps: count.default(200),
    /** Contexts a step. */
    batch: z.int().min(2).max(1e6).default(128),
    learningRate: z.number().positive().default(2e-3),
  }),
})

/** PEFT's names of what an adapter can act on, and its defaults. */
const targets = projections.map(peftName)
const loraSchema = z.strictObject({
  /** r. */
  rank: z.int().min(1).max(4096).default(8),
  /** The adapter's product counts alpha/rank. */
  alpha: z.number().positive().default(8),
  targets: z
    .union([z.literal('all-linear'), z.array(z.enum(targets)).min(1)], { error: `expected all-linear, or a list of ${targets.join(', ')}` })
    .transform((given) => targets.filter((target) => given === 'all-linear' || given.includes(target)))
    .default(['q_proj', 'v_proj']),
  /** Probability that an element of what A reads is dropped, while the objective is climbed. */
  dropout: z.number().min(0).lt(1).default(0),
})

const protocolSchema = z.strictObject({
  /** Whether an agent reads what the task tells its role … */
  taskRole: z.boolean().default(true),
  /** … and its own role prompt, which comes first. */
  ownRole: z.boolean().default(true),
  /** Whether both and the shared context come in the model's chat template, or as plain text, the role first and a blank line between. */
  chatTemplate: z.boolean().default(true),
  /** What follows the shared context in plain text, before the message. */
  cue: z.string().max(1000).default('\n\n'),
  /** `enable_thinking`, which some templates read; null: not given. */
  enableThinking: z.boolean().nullable().default(null),
  /** What becomes of the thoughts in a message: others may read them, or not. */
  thinking: z.enum(['strip', 'keep']).default('strip'),
  /** What thoughts stand between. */
  thinkingTags: z.tuple([z.string().min(1), z.string().min(1)]).default(['<think>', '</think>']),
  /** Texts that end a message; they are left out of it. */
  stop: z.array(z.string().min(1)).max(16).default([]),
})
export type Protocol = z.output<typeof protocolSchema>

const serverSchema = z.strictObject({
  /** Of an OpenAI-compatible server, up to /v1. A key is read from $TEAMTR_SERVER_KEY. */
  url: z.string().min(1),
  /** What the server calls the model that the agent's adapter is for. Default: the agent's `model`. */
  model: z.string().min(1).optional(),
  /** Where the server finds the run's folder, if not under its own path. */
  folder: z.string().min(1).optional(),
  /** Messages that are asked for at once. */
  parallel: z.int().min(1).max(1024).default(32),
  /** For one message, to its end; asked up to four times. */
  timeoutSeconds: z.number().positive().max(86_400).default(120),
})
export type ServerSettings = z.output<typeof serverSchema>

/** A training run, every field defaulted: the empty configuration trains the relay team of three. */
export const configSchema = z.strictObject({
  /** Everything random follows from it. */
  seed: z.int().min(0).max(2 ** 31 - 1).default(0),
  task: taskSchema.prefault({ name: 'relay' }),
  team: section({
    /** How many decoders that are trained from scratch; or the language models themselves, a list of {model, adapter, name, role}. */
    agents: z.union([z.int().min(1).max(64), agentsSchema], {
      error: 'expected a number from 1 to 64, or a list of {model, adapter, name, role}',
    }).optional(),
    /** The language models, where `agents` is their number: so a complete configuration has it. */
    members: agentsSchema.nullable().default(null),
    /** Which agent speaks at turn t: router[t mod its length]. Default: in turn. */
    router: z.array(z.int().min(0)).min(1).optional(),
    /** Whether all agents start from one warmed-up policy, or each from its own. */
    shared: z.boolean().default(true),
    /** Agents that are not updated. */
    frozen: z.array(z.int().min(0)).default([]),
    /** A decoder for each agent, as far as it differs from `model`; null: as `model` says. Agents of one size share their start, if any do. */
    models: z.array(z.strictObject(decoderSizes).partial().nullable()).nullable().default(null),
  }),
  /** The decoder that each agent is that is trained from scratch, where `team.models` says nothing else. */
  model: section({
    ...decoderSizes, layers: layers.default(2), hidden: hidden.default(64), heads: heads.default(4), intermediate: intermediate.default(172),
  }),
  /** What is trained of a language model: an adapter (the default), or all of it. A decoder from scratch is trained whole. */
  tuning: z.enum(['lora', 'full']).optional(),
  /** Of the adapters that are begun; an agent with an adapter of its own goes on with that one. */
  lora: loraSchema.nullish(),
  /** How language models read and write: one protocol for the whole team. */
  protocol: protocolSchema.nullish(),
  /** Imitation of the task's weak player, before any reinforcement; language models have none. */
  warmup: section({
    /** Default: 400; language models: 0. */
    steps: z.int().min(0).optional(),
    /** Episodes a step. */
    episodes: count.default(512),
    learningRate: z.number().positive().default(2e-3),
  }),
  /** null: the team is new, and warmed up. */
  start: startSchema.nullable().default(null),
  method: methodSchema.prefault('teamtr'),
  /**
   * γ of the team's MDP, one step a message: it weighs returns and occupancies, in advantages and certificates alike. Default
   * 1 − 1/turns, so that the horizon 1/(1−γ) is one episode.
   */
  gamma: z.number().gt(0).lt(1).optional(),
  /** In a stage every agent is updated once. */
  stages: z.int().min(0).max(1e6).default(40),
  /** In which order: agents 0 … n−1, reversed, a permutation drawn for each stage, or a given one. */
  order: z
    .union([z.enum(['fixed', 'reversed', 'random']), z.array(z.int())], {
      error: 'expected fixed, reversed, random, or a permutation of the agents',
    })
    .default('fixed'),
  rollout: section({
    /** P, problems a stage. */
    prompts: count.default(64),
    /** G, episodes of each. */
    group: z.int().min(2).max(1e4).default(8),
    temperature: z.number().positive().max(100).default(1),
    /** Only the most probable tokens that together have this probability, after temperature and top-k. */
    topP: z.number().gt(0).max(1).default(1),
    /** Only the k most probable tokens, after temperature; null: all. */
    topK: count.nullable().default(null),
    /** Longest message, its end included. Default: that of the task; language models: 16 in a game, 512 else. */
    maxTokens: count.optional(),
    /** Groups of equal return are replaced by those of further problems, in at most so many rounds (DAPO's dynamic sampling). */
    refill: z.int().min(0).max(100).default(0),
    /** Messages that are sampled at once; null: all. Default: 64 for language models. */
    batch: count.nullable().optional(),
    /** Engines that sample in place of the models here: one for all agents, or one each. */
    server: z.union([serverSchema, z.array(serverSchema).min(1)], { error: 'expected {url, …}, or one for each agent' }).nullable().default(null),
  }),
  advantage: section({
    /** What returns are compared with: the mean of their group, or the values of a critic (PPO). */
    baseline: z.enum(['group', 'value']).default('group'),
    /** λ of generalised advantage estimation, with a critic; γ is the team's. */
    lambda: z.number().min(0).max(1).default(0.95),
    /** Divide by the deviation of the group; with a critic: whiten over all messages. */
    normalise: z.boolean().default(true),
    /** ε_norm. */
    epsilon: z.number().min(0).default(1e-6),
    /** A_clip; null for none. */
    clip: z.number().positive().nullable().default(5),
    /**
     * A message of more than maxTokens − buffer tokens loses up to `penalty`, in proportion (DAPO): of what advantages are made of, never of what is
     * reported. null: nothing.
     */
    overlong: z.strictObject({ buffer: count, penalty: z.number().positive().default(1) }).nullable().default(null),
  }),
  /** The decoder whose values an advantage may be compared with, and how it learns; there is one only with `advantage.baseline: value`. */
  critic: section({
    layers: layers.default(1),
    hidden: hidden.default(32),
    heads: heads.default(2),
    intermediate: intermediate.default(64),
    /** Of a shared context it reads the last so many bytes. */
    bytes: count.default(512),
    /** Of Adam, on each set of rollouts. */
    steps: count.default(10),
    learningRate: z.number().positive().default(3e-3),
  }),
  objective: section({
    /** Gradient steps an update. */
    steps: count.default(3),
    learningRate: z.number().positive().default(5e-4),
    /** ε: the probability ratio is clipped to [1 − ε, 1 + ε], or to [1 − low, 1 + high]. */
    clip: z.union([z.number().positive(), z.strictObject({ low: z.number().positive(), high: z.number().positive() })], {
      error: 'expected a number above 0, or {low, high}',
    }).default(0.2),
    /** Whether w is a message's probability ratio (the action of the team's MDP), or each token has its own. */
    ratio: z.enum(['message', 'token']).default('message'),
    /**
     * With token ratios a message counts with the sum over its tokens (L^seq), their mean (GRPO), or all tokens count the same (DAPO); in the
     * divergence that β weighs too.
     */
    average: z.enum(['sum', 'message', 'token']).default('sum'),
    /** Of the divergence that β weighs; default: the one that δ bounds. */
    estimator: z.enum(['exact', 'lowVariance', 'plain']).optional(),
    /**
     * What that divergence is from: KL(behaviour‖updated), the one that δ bounds; or, as GRPO has it, KL(updated‖initial) to the agent as it was at the start
     * of the run, which its team then keeps.
     */
    reference: z.enum(['behaviour', 'initial']).default('behaviour'),
    /** Tokens that are computed at once, padding included; null: all. The gradient is the same, the memory is not. Default: 256 for language models. */
    microTokens: count.nullable().optional(),
    /** Compute each block again in the backward pass: memory for one block in place of all, for about a third more time. */
    recompute: z.boolean().default(false),
  }),
  trustRegion: section({
    /** δ, or one per agent. */
    delta: z
      .union([z.number().gt(0), z.array(z.number().gt(0)).min(1)], { error: 'expected a number above 0, or one for each agent' })
      .default(0.02),
    /** An average over the agent's messages (the paper's estimator), the same with weights γ^t (D_tok/ρ), or over all states (D_tok). */
    reading: z.enum(['message', 'discounted', 'occupancy']).default('message'),
    /** δ grows by the factor after an update that was an improvement, measured on fresh rollouts, and shrinks after a loss; null: it stays. */
    adaptive: z.strictObject({ factor: z.number().gt(1), min: z.number().gt(0), max: z.number().gt(0) }).nullable().default(null),
    /** q: the part of the tokens, drawn at random, on which the divergence is measured; one token at least is. */
    fraction: z.number().gt(0).max(1).default(1),
    /** Of a token's divergence: over the whole vocabulary, (w − 1) − log w, or −log w. */
    estimator: z.enum(['exact', 'lowVariance', 'plain']).default('exact'),
    beta: section({
      initial: z.number().min(0).default(1),
      /** 1 keeps β as it is. */
      factor: z.number().min(1).default(2),
      min: z.number().min(0).default(1e-3),
      max: z.number().positive().default(1e3),
    }),
    /** Measurements on the line back, at most. */
    probes: z.int().min(1).max(64).default(8),
  }),
  certificate: section({
    /** A_max: bounds |A|. 1 is right when the rewards of an episode lie in [0, 1] and sum to at most 1, as in both tasks here. */
    aMax: z.number().positive().default(1),
  }),
  evaluation: section({
    /** Held-out problems, one episode each. */
    problems: count.default(500),
    /** After every so many stages; 0: only before and after training. */
    every: z.int().min(0).default(10),
    /** Default: the rollouts'. */
    temperature: z.number().min(0).max(100).optional(),
  }),
  /** What is measured on rollouts of its own and trains nothing (diagnostics.ts, coordination.ts). */
  diagnostics: section({
    /** In every so many stages, from the first; 0: never. */
    every: z.int().min(0).default(0),
    /** Problems of a probe, and episodes of each. Default: those of the rollouts. */
    prompts: count.optional(),
    group: z.int().min(2).max(1e4).optional(),
    /** Whether the evaluations before and after training also measure coordination. */
    coordination: z.boolean().default(false),
  }),
  checkpoint: section({
    /** After every so many updates. */
    every: count.default(1),
  }),
})

type Parsed = z.output<typeof configSchema>
/** As one writes it: everything may be left out. */
export type ConfigInput = z.input<typeof configSchema>
/** Complete: what follows from other fields is filled in. */
export type Config = ReturnType<typeof complete>

/** @throws InputError naming the field, what it holds and what would be right */
export const parseConfig = (value: unknown, where = 'config'): Config =>
  complete(validate(configSchema, withDefaultsOfMethod(value ?? {}), where), where)

const complete = (config: Parsed, where: string) => {
  const wrong = (field: string, holds: unknown, right: string): never => {
    throw new InputError(`${where}: ${field}: holds ${show(holds)}; ${right}`)
  }
  const { agents: given } = config.team
  const members = Array.isArray(given) ? given : config.team.members
  const agents = members?.length ?? (given as number | undefined) ?? 3
  if (typeof given === 'number' && given !== agents) wrong('team.agents', given, `expected ${agents}, as many as team.members`)
  const router = config.team.router ?? Array.from({ length: agents }, (_, agent) => agent)
  router.forEach((agent, turn) => agent < agents || wrong(`team.router[${turn}]`, agent, `expected an agent, 0 to ${agents - 1}`))
  if (Array.isArray(config.order) && !isPermutation(config.order, agents)) {
    wrong('order', config.order, `expected a permutation of the agents 0 to ${agents - 1}`)
  }
  const { trustRegion: { delta, beta, estimator, adaptive }, objective: { clip, microTokens }, rollout: { topP, topK, server, maxTokens, batch }, critic } = config
  if (Array.isArray(delta) && delta.length !== agents) {
    wrong('trustRegion.delta', delta, `expected ${agents} values, one for each agent, or a single one`)
  }
  config.team.frozen.forEach((agent, i) => agent < agents || wrong(`team.frozen[${i}]`, agent, `expected an agent, 0 to ${agents - 1}`))
  if (new Set(config.team.frozen).size === agents) wrong('team.frozen', config.team.frozen, 'at least one agent must be left to update')
  if (beta.min > beta.max) wrong('trustRegion.beta.min', beta.min, `expected at most max, ${beta.max}`)
  if (adaptive) {
    if (adaptive.min > adaptive.max) wrong('trustRegion.adaptive.min', adaptive.min, `expected at most max, ${adaptive.max}`)
    const outside = [delta].flat().find((radius) => radius < adaptive.min || radius > adaptive.max)
    if (outside !== undefined) wrong('trustRegion.delta', outside, `with trustRegion.adaptive expected ${adaptive.min} to ${adaptive.max}, its min and max`)
  }
  const sized = ({ kvHeads, ...model }: Parsed['model'], field: string) => {
    if (model.heads % (kvHeads ?? model.heads) !== 0) wrong(`${field}.kvHeads`, kvHeads, `expected a divisor of heads, ${model.heads}`)
    if (model.hidden % (2 * model.heads) !== 0) wrong(`${field}.hidden`, model.hidden, `expected a multiple of 2 · heads, ${2 * model.heads}`)
    return { ...model, kvHeads: kvHeads ?? model.heads }
  }
  const { start, team: { models } } = config
  if (models && models.length !== agents) wrong('team.models', models, `expected ${agents}, one for each agent, or null`)
  if (start && start.agent >= agents) wrong('start.agent', start.agent, `expected an agent, 0 to ${agents - 1}`)
  if (critic.hidden % (2 * critic.heads) !== 0) wrong('critic.hidden', critic.hidden, `expected a multiple of 2 · heads, ${2 * critic.heads}`)
  const ofObjective = config.objective.estimator ?? estimator
  const cut = topP < 1 ? 'rollout.topP' : topK !== null ? 'rollout.topK' : null
  if (cut) {
    for (const [field, holds] of Object.entries({ 'trustRegion.estimator': estimator, 'objective.estimator': ofObjective })) {
      if (holds !== 'exact') wrong(field, holds, `with ${cut} only exact is right: the others need tokens drawn from the whole policy`)
    }
    // Π π_now/π_then weighs tokens that were drawn from the whole of π_then.
    const { method: { correction, update }, diagnostics: { every } } = config
    const unweighed = `is right: probability ratios are those of whole policies, and ${cut} draws from a part of them`
    if (correction !== 'none') wrong('method.correction', correction, `with ${cut} only none ${unweighed}`)
    if (update === 'joint') wrong('method.update', update, `with ${cut} only sequential ${unweighed}`)
    if (every > 0) wrong('diagnostics.every', every, `with ${cut} only 0 ${unweighed}`)
    if (start) wrong(cut, topP < 1 ? topP : topK, `with start expected ${topP < 1 ? 1 : 'null'}: a swap is aligned and measured on whole policies`)
  }
  if (config.objective.reference === 'initial' && ofObjective === 'plain') {
    wrong('objective.estimator', ofObjective, 'with objective.reference: initial expected exact or lowVariance; the gradient of plain has nothing of the initial policy in it')
  }
  const { turns, messageTokens } = limitsOf(config.task, agents)
  return {
    ...config,
    ...(members ? pretrained(config, members, wrong) : fromScratch(config, wrong)),
    team: { ...config.team, agents, members, router, models: models && models.map((own, i) => sized(modelWith(config.model, own), `team.models[${i}]`)) },
    model: sized(config.model, 'model'),
    start: start && { ...start, seed: start.seed ?? config.seed },
    warmup: { ...config.warmup, steps: config.warmup.steps ?? (members ? 0 : 400) },
    gamma: config.gamma ?? (turns > 1 ? 1 - 1 / turns : 0.5),
    rollout: {
      ...config.rollout,
      maxTokens: maxTokens ?? (members ? (messageTokens === null ? 512 : Math.max(16, messageTokens)) : messageTokens!),
      batch: batch === undefined ? (members ? 64 : null) : batch,
      server: server && forEach(server, agents, wrong),
    },
    objective: {
      ...config.objective,
      clip: typeof clip === 'number' ? { low: clip, high: clip } : clip,
      microTokens: microTokens === undefined ? (members ? 256 : null) : microTokens,
      estimator: config.objective.estimator ?? estimator,
    },
    trustRegion: { ...config.trustRegion, delta: Array.isArray(delta) ? delta : Array.from({ length: agents }, () => delta) },
    diagnostics: { ...config.diagnostics, prompts: config.diagnostics.prompts ?? config.rollout.prompts, group: config.diagnostics.group ?? config.rollout.group },
    evaluation: { ...config.evaluation, temperature: config.evaluation.temperature ?? config.rollout.temperature },
  }
}

/** A decoder's own sizes over those of `model`; with other heads, kvHeads follow them unless given. */
const modelWith = ({ kvHeads, ...model }: Parsed['model'], own: Partial<Parsed['model']> | null): Parsed['model'] =>
  ({ ...model, ...(own?.heads === undefined && { kvHeads }), ...Object.fromEntries(Object.entries(own ?? {}).filter(([, value]) => value !== undefined)) })

/** The decoder that an agent is. */
export const modelOf = ({ model, team: { models } }: Pick<Config, 'model' | 'team'>, agent: number): Config['model'] => models?.[agent] ?? model

type Wrong = (field: string, holds: unknown, right: string) => never

/** What only language models have. */
const pretrained = ({ tuning = 'lora', lora, protocol, warmup, start, team: { models }, rollout: { server } }: Parsed, members: readonly TeamFileAgent[], wrong: Wrong) => {
  if (start) wrong('start', start, 'it swaps decoders that are trained from scratch; another language model or adapter is swapped in by naming it in team.agents')
  if (models) wrong('team.models', models, 'it sizes decoders that are trained from scratch; leave it out')
  if (warmup.steps) wrong('warmup.steps', warmup.steps, 'language models are not warmed up; leave it out')
  if (tuning === 'full') {
    if (lora) wrong('lora', lora, 'with tuning: full there is no adapter; leave it out')
    if (server) wrong('rollout.server', server, 'a server can load adapters only; tuning: lora is needed')
    members.forEach(({ adapter }, i) => {
      if (adapter !== undefined) wrong(`team.agents[${i}].adapter`, adapter, 'tuning: full begins with models; merge it first (teamtr merge)')
    })
  }
  return { tuning, lora: tuning === 'full' ? null : lora ?? loraSchema.parse({}), protocol: protocol ?? protocolSchema.parse({}) }
}

const fromScratch = ({ tuning, lora, protocol, task, rollout: { server } }: Parsed, wrong: Wrong) => {
  const needed = 'it belongs to language models, and team.agents names none'
  if (tuning === 'lora') wrong('tuning', tuning, needed)
  for (const [field, holds] of Object.entries({ lora, protocol, 'rollout.server': server })) if (holds) wrong(field, holds, needed)
  if (task.name === 'benchmark') wrong('task.name', task.name, `${needed}; expected relay or guessing`)
  return { tuning: 'full' as const, lora: null, protocol: null }
}

const forEach = (server: ServerSettings | ServerSettings[], agents: number, wrong: Wrong): ServerSettings[] => {
  if (!Array.isArray(server)) return Array.from({ length: agents }, () => server)
  if (server.length !== agents) wrong('rollout.server', server, `expected ${agents}, one for each agent, or a single one`)
  return server
}

/** Updates in a stage: one of every agent that is not frozen. */
export const updatesInStage = ({ team: { agents, frozen } }: Pick<Config, 'team'>): number => agents - new Set(frozen).size

const isPermutation = (order: readonly number[], n: number): boolean =>
  order.length === n && order.every((agent) => agent >= 0 && agent < n) && new Set(order).size === n
