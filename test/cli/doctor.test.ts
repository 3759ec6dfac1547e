import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { nativeEngine } from '../native.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const doctor = (args: string[], env: Record<string, string> = {}, program = join(root, 'bin/teamtr.js')) =>
  spawnSync(process.execPath, [program, 'doctor', ...args], { encoding: 'utf8', env: { ...process.env, TEAMTR_ENGINE: '', ...env } })

test('doctor prints the engine, why, its device and its measured rate', () => {
  const { status, stdout, stderr } = doctor([])
  expect(stderr).toBe('')
  expect(status).toBe(0)
  expect(stdout).toMatch(nativeEngine ? /^engine +tensorflow, TensorFlow 2\.\d+\.\d+.*, tfjs 4\.22\.0$/m : /^engine +wasm, tfjs/m)
  for (const label of ['why', 'device', 'memory', 'NVIDIA GPU', 'CUDA found', 'CUDA missing', 'faster']) {
    expect(stdout).toMatch(new RegExp(`^${label} +\\S`, 'm'))
  }
  const rate = Number(/^matmul +([\d.]+) GFLOP\/s/m.exec(stdout)?.[1])
  expect(rate).toBeGreaterThan(0.01)
  expect(rate).toBeLessThan(1e7)
})

test('doctor --json is JSON; --require native is met by the tensorflow engine only', () => {
  const { status, stdout, stderr } = doctor(['--json', '--require', 'native'], { TEAMTR_ENGINE: 'wasm' })
  expect(status).toBe(1)
  expect(stderr).toMatch(/^teamtr: --require native: the wasm engine runs on .*\n$/)
  expect(JSON.parse(stdout)).toMatchObject({
    engine: { name: 'wasm', why: 'asked for by TEAMTR_ENGINE', gpu: false },
    met: false,
    matmul: { gflops: expect.any(Number) },
  })
})

test.skipIf(!nativeEngine)('doctor --require native is met when TensorFlow runs', () => {
  expect(doctor(['--require', 'native', '--engine', 'tensorflow']).status).toBe(0)
})

test('without a native engine wasm runs, and doctor says why; asked for explicitly, the native one is an error', () => {
  const folder = mkdtempSync(join(tmpdir(), 'teamtr-doctor-'))
  try {
    // The same program in a project whose packages are these, but for tfjs-node-gpu.
    cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
    cpSync(join(root, 'package.json'), join(folder, 'package.json'))
    mkdirSync(join(folder, 'node_modules/@tensorflow'), { recursive: true })
    for (const scope of ['', '@tensorflow']) {
      for (const name of readdirSync(join(root, 'node_modules', scope))) {
        if (!['@tensorflow', 'tfjs-node-gpu', '.bin'].includes(name)) symlinkSync(join(root, 'node_modules', scope, name), join(folder, 'node_modules', scope, name))
      }
    }
    const there = (args: string[]) => doctor(args, {}, join(folder, 'dist/cli/main.js'))
    const fallen = there(['--json'])
    expect(fallen.status).toBe(0)
    expect(JSON.parse(fallen.stdout)).toMatchObject({
      engine: { name: 'wasm', why: expect.stringMatching(/^tensorflow cannot run: .*npm run native/) },
      faster: 'npm run native',
    })
    const explicit = there(['--engine', 'tensorflow'])
    expect(explicit).toMatchObject({ status: 2, stdout: '' })
    expect(explicit.stderr).toMatch(/^teamtr: --engine: tensorflow cannot run: .*\n$/)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test.each([
  [['--engine', 'wams'], {}, /^teamtr: --engine: holds "wams"; one of tensorflow, webgpu, wasm, cpu\n$/],
  [[], { TEAMTR_ENGINE: 'gpu' }, /^teamtr: TEAMTR_ENGINE: holds "gpu"; one of/],
  [['--require', 'tpu'], {}, /native, gpu/],
] as [string[], Record<string, string>, RegExp][])('doctor %j %j is a mistake in the input', (args, env, message) => {
  const { status, stderr, stdout } = doctor(args, env)
  expect(status).toBe(2)
  expect(stderr).toMatch(message)
  expect(stdout).toBe('')
})
