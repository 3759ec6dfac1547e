import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // TensorFlow's native binding may be loaded once per process only.
    pool: 'forks',
    testTimeout: 60_000,
  },
})
