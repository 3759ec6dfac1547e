/** How a written model stores its weights, by the names that configurations use. */
export const dtypes = ['float32', 'float16', 'bfloat16'] as const
export type Dtype = (typeof dtypes)[number]
