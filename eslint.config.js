import tseslint from 'typescript-eslint'

/** The wings and what each may import (../shared/spec/architecture.md). Everyone may use util/; util/ uses nobody. */
const arrows = {
  util: [],
  theory: ['util'],
  tasks: ['util'],
  figures: ['util'],
  train: ['util', 'theory', 'tasks'],
  experiments: ['util', 'theory', 'figures', 'train'],
  kernel: ['util', 'figures'],
}
const wings = [...Object.keys(arrows), 'cli']

const walls = Object.entries(arrows).map(([wing, allowed]) => ({
  files: [`src/${wing}/**/*.ts`],
  rules: {
    'no-restricted-imports': ['error', {
      patterns: wings
        .filter((other) => other !== wing && !allowed.includes(other))
        .map((other) => ({ regex: `^(\\.\\./)+${other}/`, message: `${wing}/ must not import ${other}/` })),
    }],
  },
}))

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', 'runs/', 'notebooks/'] },
  ...tseslint.configs.recommended,
  ...walls,
)
