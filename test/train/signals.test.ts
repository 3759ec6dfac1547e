import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { nativeEngine } from '../native.js'

const built = fileURLToPath(new URL('../../dist/train/backend.js', import.meta.url))

/** Multiplies matrices in the shapes of a small decoder for a second and a half, then says how many signals it saw. */
const program = `
  import { initEngine, tf } from ${JSON.stringify(built)}
  await initEngine('tensorflow')
  let seen = 0
  process.on('SIGUSR2', () => seen++)
  console.log('ready')
  const pairs = [[32, 128, 384], [32, 352, 128], [512, 128, 384]].map(([m, k, n]) => [tf.randomNormal([m, k]), tf.randomNormal([k, n])])
  for (const end = performance.now() + 1500; performance.now() < end; await new Promise(setImmediate)) {
    for (let i = 0; i < 10; i++) tf.dispose(pairs.map(([a, b]) => tf.matMul(a, b)))
  }
  console.log('seen ' + seen)
  process.exit(0)
`

test.skipIf(!nativeEngine || !existsSync(built))('signals reach their handlers and do not disturb what computes', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (text: Buffer) => (out += text.toString()))
  const ended = once(child, 'exit')
  while (!out.includes('ready') && child.exitCode === null) await sleep(20)
  while (!out.includes('seen') && child.exitCode === null && child.signalCode === null) {
    for (let i = 0; i < 10; i++) child.kill('SIGUSR2')
    await sleep(1)
  }
  expect(await ended).toEqual([0, null])
  expect(Number(/seen (\d+)/.exec(out)?.[1])).toBeGreaterThan(20)
})
