import { isObject } from '../util/objects.js'

/** A configuration with the options that stand above it; one that is no object is left for `parseConfig` to refuse. */
export const withOptions = (config: unknown, { method, seed, stages }: { readonly method?: string; readonly seed?: number; readonly stages?: number }): unknown => {
  if (!isObject(config)) return config
  const above = Object.entries({ method, seed, stages }).filter(([, value]) => value !== undefined)
  return { ...config, ...Object.fromEntries(above) }
}
