// Runs cells (a JSON array on stdin) as the kernel does, in the current folder; prints what each printed, or the stack of what it threw.
// A process of its own, since TypeScript remembers the folder it started in.
import { readFileSync } from 'node:fs'
import { mends } from '../../dist/kernel/mends.js'
import { cellStack } from '../../dist/kernel/stack.js'
import { loadTslab, packageRoot } from '../../dist/kernel/tslab.js'

const tslab = loadTslab(mends(packageRoot))
const node = tslab.createConverter({ isJS: false, isBrowser: false })
let printed = []
let failures = []
const executor = tslab.createExecutor(process.cwd(), { node, close: () => node.close() }, {
  log: (value) => printed.push(String(value)),
  error: (...parts) => failures.push(parts.length === 1 ? parts[0] : new Error(String(parts[4]))),
})
const results = []
for (const code of JSON.parse(readFileSync(0, 'utf8'))) {
  printed = []
  failures = []
  const ok = await executor.execute(code)
  results.push(ok ? printed.join('\n') : failures.flatMap((failure) => cellStack(failure, globalThis.__teamtrCell ?? '', code)).join('\n'))
}
process.stdout.write(JSON.stringify(results))
process.exit()
