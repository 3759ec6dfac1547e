export * from './util/errors.js'
export * from './util/random.js'
