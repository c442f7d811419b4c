// What the hub depends on may be away when it starts, and later: it says so once, is not ready, and goes on by itself.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, connect, type AddressInfo, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { createDevBroker } from '../../dev/broker.ts'
import { testDatabase } from '../support/database.ts'
import { spawnHub } from '../support/hub.ts'

/** A port on loopback that leads to `target` while it is open, and where nobody listens while it is not. */
async function door(t: TestContext, target: URL) {
  let server: Server | null = null
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  const open = async (): Promise<void> => {
    server = createServer((socket) => {
      const through = connect(Number(target.port), target.hostname)
      socket.pipe(through).pipe(socket)
      socket.on('error', () => through.destroy())
      through.on('error', () => socket.destroy())
      socket.on('close', () => through.destroy())
    }).listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  t.after(() => server?.close())
  return { port, open }
}

async function readiness(url: string): Promise<{ status: number; failing: string[] }> {
  const response = await fetch(`${url}/readyz`)
  const body = (await response.json()) as { errors?: { path: string }[] }
  return { status: response.status, failing: (body.errors ?? []).map(({ path }) => path) }
}

async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await holds()); await delay(50)) {
    assert.ok(Date.now() < deadline, `never: ${what}`)
  }
}

/** Each of the hub's two consumers says for itself that it cannot reach the brokers. */
const STREAMS = ['facts', 'dead letters']
const unreachable = (stream: string): RegExp => new RegExp(`"stream":"${stream}".*cluster cannot be reached"`)
const reachedAgain = (stream: string): RegExp => new RegExp(`"stream":"${stream}".*cluster cannot be reached: over"`)

test('a database and a broker that are away at the start are said once each, shown by /readyz, and waited for', async (t) => {
  const { dsn } = await testDatabase()
  const way = await door(t, new URL(dsn))
  const database = Object.assign(new URL(dsn), { hostname: '127.0.0.1', port: String(way.port) })
  const brokerPort = (await door(t, new URL('http://127.0.0.1:1'))).port
  const dataDir = await mkdtemp(join(tmpdir(), 'hub-'))
  t.after(() => rm(dataDir, { recursive: true, force: true }))
  const listenPort = (await door(t, new URL('http://127.0.0.1:1'))).port
  const url = `http://127.0.0.1:${listenPort}`
  const hub = spawnHub({
    STREAMING_HUB_POSTGRES_DSN: database.href,
    STREAMING_HUB_KAFKA_BROKERS: `127.0.0.1:${brokerPort}`,
    STREAMING_HUB_HTTP_LISTEN_ADDR: `127.0.0.1:${listenPort}`,
    STREAMING_HUB_DATA_DIR: dataDir,
    STREAMING_HUB_LOG_LEVEL: 'info',
  })
  t.after(() => hub.kill())
  const answers = (): Promise<boolean> =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(answers, 'it serves its API without a database')
  await until(async () => (await readiness(url)).failing.includes('database'), 'the database is named')
  await delay(2_000)
  assert.equal((await readiness(url)).status, 503)
  const said = (words: RegExp): number => hub.lines.filter((line) => words.test(line)).length
  assert.equal(said(/the database cannot be reached/), 1)

  await way.open()
  await until(async () => !(await readiness(url)).failing.includes('database'), 'the database is there')
  await until(async () => said(/the database can be reached/) === 1, 'it says that the database is back')
  await until(async () => (await readiness(url)).failing.includes('stream'), 'the broker is named')
  for (const stream of STREAMS) await until(async () => said(unreachable(stream)) > 0, `${stream} says it`)
  await delay(2_000)
  for (const stream of STREAMS) assert.equal(said(unreachable(stream)), 1, stream)

  const broker = createDevBroker({ port: brokerPort })
  await broker.start()
  t.after(() => broker.stop(AbortSignal.abort()))
  assert.equal(broker.port, brokerPort)
  await until(async () => (await readiness(url)).status === 200, 'it is ready')
  for (const stream of STREAMS) {
    assert.equal(said(unreachable(stream)), 1, stream)
    await until(async () => said(reachedAgain(stream)) === 1, `${stream} says that the broker is back`)
  }
  assert.equal(await hub.stop(), 0)
})
