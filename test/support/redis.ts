// A real Redis for one test: `redis-server` as a child process on loopback, with nothing kept on disk. CI must have it; elsewhere the
// tests that need it are skipped where it is not installed.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'

const START_LIMIT_MS = 60_000

export interface TestRedis extends AsyncDisposable {
  host: string
  port: number
  /** Stands still until it is told to go on: its connections stay open. */
  pause(): void
  resume(): void
  kill(): Promise<void>
  /** Again on the same port, empty. */
  start(): Promise<void>
}

/**
 * Null, with the reason told to the test, where Redis is not installed. `settings`: as in `redis.conf`, for the command line; with a
 * certificate among them it speaks TLS alone.
 */
export async function realRedis(t: TestContext, settings: readonly string[] = []): Promise<TestRedis | null> {
  if (spawnSync('redis-server', ['--version']).error !== undefined) {
    if (process.env['CI'] === 'true') throw new Error('CI runs on a real Redis, and redis-server is not installed')
    t.skip('redis-server is not installed')
    return null
  }
  const port = await freePort()
  let server: ChildProcess | null = null
  const start = async (): Promise<void> => {
    server = await launch(port, settings)
  }
  const kill = async (): Promise<void> => {
    if (server === null || server.exitCode !== null || server.signalCode !== null) return
    const gone = once(server, 'exit')
    server.kill('SIGKILL')
    await gone
  }
  await start()
  return {
    host: '127.0.0.1',
    port,
    pause: () => void server?.kill('SIGSTOP'),
    resume: () => void server?.kill('SIGCONT'),
    kill,
    start,
    [Symbol.asyncDispose]: kill,
  }
}

async function launch(port: number, settings: readonly string[]): Promise<ChildProcess> {
  const ports = settings.includes('--tls-cert-file') ? ['--port', '0', '--tls-port'] : ['--port']
  const own = [...ports, String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', '/']
  const server = spawn('redis-server', [...own, ...settings], { stdio: 'ignore' })
  process.once('exit', () => server.kill('SIGKILL'))
  const limit = Date.now() + START_LIMIT_MS
  while (!(await takesConnections(port))) {
    if (Date.now() > limit || server.exitCode !== null) throw new Error('Redis did not start')
    await delay(20)
  }
  return server
}

async function takesConnections(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  await once(server.close(), 'close')
  return port
}
