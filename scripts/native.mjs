#!/usr/bin/env node
/**
 * npm run native [-- --cpu | --gpu]
 *
 * Builds the Node binding of @tensorflow/tfjs-node-gpu against a current TensorFlow. The package's own install script
 * would fetch TensorFlow 2.9 from a host that many machines cannot reach, and that build knows no current GPU.
 *
 *   1. fetch TensorFlow's wheel with pip (sha256 pinned), unpack its C++ libraries and C headers into the per-user cache
 *   2. compile the binding against them (two C++ files, seconds) and keep it in the cache too
 *   3. copy it to where the package looks for it
 *
 * What is in the cache is checked by size and sha256 before it is used. Where no native engine can be had, one line says
 * why and the exit code is 0: the embedded wasm engine runs the same commands, slower.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { homedir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { cacheRoot, ensureFolder, hash, makeFolder } from './native/cache.mjs'
import { platforms, pythonTag, tensorflowVersion, wheels } from './native/wheels.mjs'

const help = `Usage: npm run native [-- OPTIONS]

Sets up the native engine (TensorFlow ${tensorflowVersion}) for teamtr. Safe to repeat: what is there and sound is kept.

  --cpu   the CPU build (the default, unless the GPU build is already set up)
  --gpu   the CUDA build, for NVIDIA GPUs: about 3 GB to download
  --help  this text

Needs Linux (glibc 2.27 or newer; x86_64 or aarch64), python3 with pip, and a C++17 compiler (g++, clang++ or $CXX).
Libraries are kept in ${cacheRoot()}`

const require = createRequire(import.meta.url)

/** A reason why there is no native engine: one line. */
class Unavailable extends Error {}

const say = (line) => process.stderr.write(`native engine: ${line}\n`)

const main = () => {
  const flags = readFlags()
  if (flags.help) return console.log(help)
  const start = performance.now()
  const home = packageHome()
  const target = bindingPath(home)
  const stampFile = join(dirname(target), 'teamtr.json')
  const stamp = readStamp(stampFile)
  if (!stamp && !flags.cpu && !flags.gpu && existsSync(target) && loadError(target) === undefined) {
    return console.log('native engine: the package\'s own binding works; nothing to do')
  }

  const variant = flags.gpu ? 'gpu' : flags.cpu ? 'cpu' : stamp?.variant ?? 'cpu'
  const machine = machineName()
  const cache = cacheRoot()
  const recipe = { members, wheels: wheels(variant, machine) }
  const libraries = ensureFolder(cache, `tensorflow-${tensorflowVersion}-${variant}-${machine}-${digest(recipe)}`,
    (folder) => unpackTensorflow(recipe.wheels, machine, folder))
  const compilations = bindings(home, target, libraries)
  // N-API is stable across Node versions: its version, among the arguments, stands for Node's.
  // The checkout's own place does not count: another checkout finds the same binding.
  const key = digest(JSON.stringify(compilations).replaceAll(checkout, ''))
  const built = ensureFolder(cache, `binding-${key}`, (folder) => compile(compilations, folder))

  const error = loadError(join(built, basename(target)))
  if (error !== undefined) throw new Unavailable(`the binding does not load: ${error}`)
  makeFolder(dirname(target))
  for (const { name } of compilations) replaceFile(join(dirname(target), name), readFileSync(join(built, name)))
  replaceFile(stampFile, JSON.stringify({ variant, tensorflow: tensorflowVersion, libraries }))
  const seconds = ((performance.now() - start) / 1000).toFixed(1)
  const build = variant === 'gpu' ? 'CUDA build' : 'CPU build'
  console.log(`native engine: TensorFlow ${tensorflowVersion} (${build}) is ready, ${seconds} s; cache ${tilde(cache)}`)
}

/** Eight hex digits that differ when the value does. */
const digest = (value) => createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 8)

const readFlags = () => {
  try {
    const { values } = parseArgs({ options: { cpu: { type: 'boolean' }, gpu: { type: 'boolean' }, help: { type: 'boolean' } } })
    if (values.cpu && values.gpu) throw new Error('--cpu and --gpu exclude each other')
    return values
  } catch (error) {
    console.error(`native: ${error.message.split('. ')[0]} (add --help for the options)`)
    process.exit(2)
  }
}

const packageHome = () => {
  try {
    return dirname(require.resolve('@tensorflow/tfjs-node-gpu/package.json'))
  } catch {
    throw new Unavailable('the package @tensorflow/tfjs-node-gpu is not installed (npm ci without --omit=optional)')
  }
}

/** Where the package looks for its binding; asked the way the package itself asks. */
const bindingPath = (home) => createRequire(join(home, 'package.json'))('@mapbox/node-pre-gyp').find(join(home, 'package.json'))

const readStamp = (file) => {
  try {
    const stamp = JSON.parse(readFileSync(file, 'utf8'))
    return ['cpu', 'gpu'].includes(stamp.variant) ? stamp : undefined
  } catch {
    return undefined
  }
}

const machineName = () => {
  const machine = { x64: 'x86_64', arm64: 'aarch64' }[process.arch]
  if (process.platform !== 'linux' || !machine) {
    throw new Unavailable(`it is set up on Linux x86_64 and aarch64 only, this is ${process.platform} ${process.arch}`)
  }
  const glibc = process.report.getReport().header.glibcVersionRuntime
  const [major, minor] = (glibc ?? '0.0').split('.').map(Number)
  if (major < 2 || (major === 2 && minor < 27)) {
    throw new Unavailable(`TensorFlow needs glibc 2.27 or newer, this system has ${glibc ?? 'another C library'}`)
  }
  return machine
}

/** What goes wrong when a fresh process loads a binding; undefined when it works. */
const loadError = (binding) => {
  const program = 'if (!require(process.argv[1]).TF_Version) throw new Error("it names no TensorFlow version")'
  const { status, stderr, signal } = spawnSync(process.execPath, ['-e', program, binding], { encoding: 'utf8' })
  if (status === 0) return undefined
  return /^\w*Error: (.*)$/m.exec(stderr)?.[1] ?? `node ended with ${signal ?? `code ${status}`}`
}

/** The wheels' members that are used: libraries, the C headers, and what CUDA's just-in-time compiler needs. */
const members = [
  String.raw`tensorflow/libtensorflow_(cc|framework)\.so\.2`,
  String.raw`tensorflow/include/tensorflow/c/.*\.h`,
  String.raw`tensorflow/include/(tensorflow/core|tsl)/platform/ctstring(_internal)?\.h`,
  String.raw`tensorflow/include/xla/tsl/c/.*\.h`,
  String.raw`nvidia/[a-z_]+/lib/.*\.so[.0-9]*`,
  String.raw`nvidia/cuda_nvcc/(bin/(ptxas|nvlink|fatbinary)|nvvm/libdevice/.*)`,
].join('|')

const unpackScript = `
import os, re, sys, zipfile
folder, pattern, wheels = sys.argv[1], re.compile(sys.argv[2]), sys.argv[3:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if pattern.fullmatch(member.filename) and '..' not in member.filename.split('/'):
                path = archive.extract(member, folder)
                if (member.external_attr >> 16) & 0o111:
                    os.chmod(path, 0o755)
`

const unpackTensorflow = (wheels, machine, folder) => {
  const python = process.env.PYTHON || 'python3'
  if (spawnSync(python, ['-m', 'pip', '--version']).status !== 0) {
    throw new Unavailable(`${python} with pip is needed to fetch TensorFlow, and was not found`)
  }
  const downloads = join(folder, 'wheels')
  mkdirSync(downloads)
  const requirements = wheels
    .map(({ name, version, hashes }) => `${name}==${version} ${hashes.map((sha256) => `--hash=sha256:${sha256}`).join(' ')}`)
  const list = join(downloads, 'requirements.txt')
  writeFileSync(list, `${requirements.join('\n')}\n`)
  say(`fetching TensorFlow ${tensorflowVersion}, ${wheels.length > 1 ? 'CUDA build, about 3 GB' : 'about 270 MB'} (once) …`)
  pip(python, ['download', '--quiet', '--no-deps', '--require-hashes', '--only-binary=:all:', '--disable-pip-version-check',
    '--implementation', 'cp', '--python-version', pythonTag, '--abi', `cp${pythonTag.replace('.', '')}`,
    ...platforms(machine).flatMap((tag) => ['--platform', tag]), '--dest', downloads, '--requirement', list])
  say('unpacking …')
  const files = readdirSync(downloads).filter((name) => name.endsWith('.whl')).map((name) => join(downloads, name))
  const { status, stderr } = spawnSync(python, ['-c', unpackScript, folder, members, ...files], { encoding: 'utf8' })
  if (status !== 0) throw new Unavailable(`TensorFlow's wheel cannot be unpacked: ${lastLine(stderr)}`)
  rmSync(downloads, { recursive: true })
}

/** pip names its index in what it prints: only its last error is passed on, without addresses. */
const pip = (python, args) => {
  const { status, stderr } = spawnSync(python, ['-m', 'pip', ...args], { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] })
  if (status === 0) return
  const errors = stderr.split('\n').filter((line) => line.startsWith('ERROR:'))
  const error = lastLine(errors.length ? errors.join('\n') : stderr).replace(/^ERROR:\s*/, '')
  throw new Unavailable(`pip cannot fetch TensorFlow: ${error}`)
}

const lastLine = (text) => (text.trim().split('\n').pop() ?? '').replace(/\b(https?|file):\/\/\S+/g, '…')

/** What is compiled: the binding, and two small addons to be loaded before it. Names, and the compiler's arguments. */
const bindings = (home, target, libraries) => {
  const { version } = require(join(home, 'package.json'))
  const { include_dir: nodeApi } = require('node-api-headers')
  const tensorflow = join(libraries, 'tensorflow')
  const napi = /napi-v(\d+)/.exec(target)?.[1] ?? '8'
  const addon = ['-std=c++17', '-O2', '-fPIC', '-shared', `-DNAPI_VERSION=${napi}`, '-I', nodeApi]
  return [
    {
      name: basename(target),
      version,
      args: [
        ...addon, '-I', join(tensorflow, 'include'), join(home, 'binding/tfjs_backend.cc'), join(home, 'binding/tfjs_binding.cc'),
        '-L', tensorflow, '-l:libtensorflow_cc.so.2', '-l:libtensorflow_framework.so.2', '-Xlinker', '-rpath', '-Xlinker', tensorflow,
      ],
    },
    ...['quiet', 'shield'].map((name) => {
      const source = fileURLToPath(new URL(`native/${name}.cc`, import.meta.url))
      return { name: `${name}.node`, version: hash(source), args: [...addon, `-DNODE_GYP_MODULE_NAME=${name}`, source] }
    }),
  ]
}

const checkout = fileURLToPath(new URL('..', import.meta.url))

const compile = (compilations, folder) => {
  const compiler = [process.env.CXX, 'g++', 'clang++', 'c++'].find((name) => name && spawnSync(name, ['--version']).status === 0)
  if (!compiler) throw new Unavailable('a C++ compiler is needed (g++, clang++ or $CXX), and none was found')
  say('compiling the binding (once) …')
  for (const { name, args } of compilations) {
    const { status, stderr } = spawnSync(compiler, [...args, '-o', join(folder, name)], { encoding: 'utf8' })
    if (status !== 0) throw new Unavailable(`${compiler} cannot compile ${name}: ${/^.*error:.*$/m.exec(stderr)?.[0] ?? lastLine(stderr)}`)
  }
}

/** Written to a temporary name, then renamed: a process that has the old file loaded keeps it. */
const replaceFile = (file, content) => {
  const temporary = `${file}.${process.pid}.tmp`
  writeFileSync(temporary, content)
  renameSync(temporary, file)
}

const tilde = (path) => (path.startsWith(`${homedir()}/`) ? `~${path.slice(homedir().length)}` : path)

try {
  main()
} catch (error) {
  const why = error instanceof Unavailable ? error.message : lastLine(String(error.message))
  console.log(`native engine: none (${why}); the embedded wasm engine is used: same commands, slower`)
}
