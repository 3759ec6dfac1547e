import { execFile, type ExecFileOptions } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** The command line's entry. */
export const program = fileURLToPath(new URL('../bin/teamtr.js', import.meta.url))

/** Run `teamtr` in a process of its own. @returns what it printed, and its exit code: null where a signal ended it */
export const teamtrWith = (options: ExecFileOptions, args: readonly string[]): Promise<{ stdout: string; stderr: string; status: number | null }> =>
  new Promise((resolve) => {
    const child = execFile(process.execPath, [program, ...args], { ...options, encoding: 'utf8' }, (_, stdout, stderr) => resolve({ stdout, stderr, status: child.exitCode }))
  })
