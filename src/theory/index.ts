export * from './mdp.js'
export * from './evaluate.js'
export * from './divergence.js'
export * from './families.js'
