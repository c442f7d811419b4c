// The program as a person meets it: a process of its own, started through its launcher.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const LAUNCHER = fileURLToPath(new URL('../../bin/streaming-hub.js', import.meta.url))

export interface RunningProgram extends AsyncDisposable {
  pid: number
  /** All that it has written to stdout and stderr so far. */
  output(): string
  /** Resolves when the output matches; rejects, with the output, when the program ends before. */
  says(pattern: RegExp): Promise<RegExpExecArray>
  /** Resolves with its exit code, after all output. */
  ended: Promise<number | null>
  signal(name: NodeJS.Signals): void
}

/** Starts it with these arguments and exactly these variables, beside PATH. It is killed at the end of its scope. */
export function startProgram(args: string[], env: Record<string, string> = {}, node: string[] = []): RunningProgram {
  const child = spawn(process.execPath, [...node, LAUNCHER, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  let over = false
  let wake: (() => void) | null = null
  const more = (chunk: Buffer): void => {
    text += chunk.toString()
    wake?.()
  }
  child.stdout.on('data', more)
  child.stderr.on('data', more)
  const ended = once(child, 'close').then(([code]) => {
    over = true
    wake?.()
    return code as number | null
  })
  const says = async (pattern: RegExp): Promise<RegExpExecArray> => {
    for (;;) {
      const found = pattern.exec(text)
      if (found) return found
      if (over) throw new Error(`It ended without saying ${pattern}:\n${text}`)
      await new Promise<void>((resolve) => (wake = resolve))
    }
  }
  return {
    pid: child.pid ?? 0,
    output: () => text,
    says,
    ended,
    signal: (name) => void child.kill(name),
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
