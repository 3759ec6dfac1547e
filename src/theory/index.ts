export * from './mdp.js'
export * from './evaluate.js'
