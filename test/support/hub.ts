// A hub in a process of its own, as an operator runs it: the command line, environment variables, signals.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface RunningHub {
  /** The API's, without a slash at its end. */
  url: string
  process: ChildProcess
  /** What it has written, line by line, on both streams. */
  lines: string[]
  /** SIGTERM, and the exit code when it has ended. */
  stop(): Promise<number | null>
  /** SIGKILL, and nothing more of it. */
  kill(): Promise<void>
}

const PROGRAM = fileURLToPath(new URL('../../bin/streaming-hub.js', import.meta.url))

/** Starts `streaming-hub serve` and resolves when it says where it is; rejects with what it wrote when it ends before. */
export async function startHub(variables: Record<string, string>): Promise<RunningHub> {
  const hub = spawnHub(variables)
  const ended = once(hub.process, 'exit').then(() => {
    throw new Error(`the hub ended: ${hub.lines.join('\n')}`)
  })
  const url = await Promise.race([hub.url, ended])
  ended.catch(() => undefined)
  return { ...hub, url }
}

/** The same without waiting: `url` resolves once the hub has said it, if it ever does. */
export function spawnHub(variables: Record<string, string>): Omit<RunningHub, 'url'> & { url: Promise<string> } {
  const env = {
    ...process.env,
    STREAMING_HUB_LOG_LEVEL: 'warn',
    STREAMING_HUB_HTTP_LISTEN_ADDR: '127.0.0.1:0',
    // No balancer has to see it go.
    STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: '0s',
    ...variables,
  }
  const child = spawn(process.execPath, [PROGRAM, 'serve'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const lines: string[] = []
  const url = new Promise<string>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        lines.push(line)
        const found = /^ *API +(http:\S+?),? /.exec(`${line} `)?.[1]
        if (found) resolve(found)
      })
    }
  })
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      await once(child, 'exit')
    }
    return child.exitCode
  }
  return { url, process: child, lines, stop: () => end('SIGTERM'), kill: async () => void (await end('SIGKILL')) }
}
