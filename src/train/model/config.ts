import { z } from 'zod'

const size = (most: number) => z.int().min(1).max(most)

/** The largest that a decoder's sizes may be. */
export const decoderSizes = { layers: size(1024), hidden: size(2 ** 16), heads: size(1024), kvHeads: size(1024).optional(), intermediate: size(2 ** 20) }

/** What a decoder is made of. Every combination is one forward pass in decoder.ts. */
export const decoderSchema = z.strictObject({
  /** Tokens. */
  vocabulary: size(2 ** 20),
  /** Width d of the residual stream. */
  hidden: decoderSizes.hidden,
  layers: decoderSizes.layers,
  /** Query heads H. */
  heads: decoderSizes.heads,
  /** Key-value heads K, a divisor of H; head h reads key-value head ⌊hK/H⌋ (grouped-query attention). Default H. */
  kvHeads: decoderSizes.kvHeads,
  /** Width of a head, even; default hidden / heads. */
  headDim: size(2 ** 14).optional(),
  /** Width f of the MLP. */
  intermediate: decoderSizes.intermediate,
  /** Longest sequence. */
  maxPositions: size(2 ** 24),
  norm: z.enum(['rms', 'layer']).default('rms'),
  normEpsilon: z.number().positive().default(1e-6),
  positions: z.enum(['rotary', 'learned']).default('rotary'),
  ropeTheta: z.number().positive().default(10_000),
  /** What each of the headDim/2 rotary frequencies is divided by (scaled positions); default 1. */
  ropeFactors: z.array(z.number().positive()).optional(),
  /** swiglu: silu(x·gate) ⊙ (x·up) · down. gelu (the tanh form): gelu(x·up) · down. */
  mlp: z.enum(['swiglu', 'gelu']).default('swiglu'),
  /** RMSNorm of each query and key head (Qwen3). */
  qkNorm: z.boolean().default(false),
  qkvBias: z.boolean().default(false),
  outBias: z.boolean().default(false),
  mlpBias: z.boolean().default(false),
  /** The output head is the embedding. */
  tied: z.boolean().default(true),
})
  .transform((c) => ({ ...c, kvHeads: c.kvHeads ?? c.heads, headDim: c.headDim ?? c.hidden / c.heads }))
  .check(({ value: c, issues }) => {
    const wrong = (field: 'kvHeads' | 'headDim' | 'ropeFactors', message: string) => issues.push({ code: 'custom', path: [field], input: c[field], message })
    if (c.heads % c.kvHeads !== 0) wrong('kvHeads', 'expected a divisor of heads')
    if (!Number.isInteger(c.headDim) || (c.headDim % 2 !== 0 && c.positions === 'rotary')) wrong('headDim', 'expected an even whole number (default: hidden / heads)')
    if (c.ropeFactors && c.ropeFactors.length !== c.headDim / 2) wrong('ropeFactors', `expected ${c.headDim / 2} numbers, headDim / 2`)
  })

/** A decoder's architecture, complete. */
export type DecoderConfig = z.output<typeof decoderSchema>
/** The same as one writes it, with defaults left out. */
export type DecoderInput = z.input<typeof decoderSchema>
