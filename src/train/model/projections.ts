/** What a LoRA adapter can act on: the outputs of the linear layers. */
export const projections = ['query', 'key', 'value', 'out', 'gate', 'up', 'down'] as const
export type Projection = (typeof projections)[number]

/** Their modules' names in a Hugging Face block. */
export const modules: Readonly<Record<Projection, string>> = {
  query: 'self_attn.q_proj',
  key: 'self_attn.k_proj',
  value: 'self_attn.v_proj',
  out: 'self_attn.o_proj',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  down: 'mlp.down_proj',
}

/** What `target_modules` of a PEFT adapter calls a projection. */
export const peftName = (projection: Projection): string => modules[projection].split('.')[1]
