// How a hub in a process of its own ends: what is finished, what is given back, how it is said, and that nothing that hangs can
// keep it. The bounds are the configured ones: a part that hangs hangs for ever here, so that a bound that fails never ends.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Agent } from 'undici'
import { createDevBroker } from '../../dev/broker.ts'
import type { Pool } from '../../src/store/pool.ts'
import { testDatabase } from '../support/database.ts'
import { anEvent, arrive } from '../support/fixtures.ts'
import { spawnHub, startHub, type RunningHub } from '../support/hub.ts'
import { startReceiver, type Receiver } from '../support/receiver.ts'

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await holds()); await delay(20)) {
    assert.ok(Date.now() < deadline, `never: ${what}`)
  }
}

// One for all of them: the key that seals stored secrets lies there.
const dataDir = await mkdtemp(join(tmpdir(), 'hub-'))
after(() => rm(dataDir, { recursive: true, force: true }))

async function hubOn(t: TestContext, dsn: string, more: Record<string, string> = {}): Promise<RunningHub> {
  const hub = await startHub({
    STREAMING_HUB_ROLE: 'delivery',
    STREAMING_HUB_DEV_BROKER_PORT: '0',
    STREAMING_HUB_POSTGRES_DSN: dsn,
    STREAMING_HUB_DATA_DIR: dataDir,
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    STREAMING_HUB_LOG_LEVEL: 'info',
    ...more,
  })
  t.after(() => hub.kill())
  return hub
}

/** Answers challenges; events at once, never, or when a promise has resolved. */
async function receiverThat(answers: 'at once' | 'never' | Promise<void>): Promise<Receiver> {
  return await startReceiver((response, request) => {
    if (request.headers['x-lerian-event-type'] === 'hub.verification') {
      response.end((JSON.parse(request.body.toString()) as { challenge: string }).challenge)
    } else if (answers !== 'never') {
      void Promise.resolve(answers).then(() => response.end('ok'))
    }
  })
}

const eventsAt = ({ requests }: Receiver): number =>
  requests.filter(({ headers }) => headers['x-lerian-event-type'] !== 'hub.verification').length

async function post(url: string, body: object): Promise<{ id: string }> {
  const headers = { 'x-tenant-id': 'acme', 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  assert.ok(response.ok, `${response.status} ${await response.clone().text()}`)
  return (await response.json()) as { id: string }
}

async function subscribe(hub: RunningHub, url: string): Promise<string> {
  const sink = { kind: 'webhook', url, timeout: '60s' }
  const { id } = await post(`${hub.url}/v1/subscriptions`, { name: 'test', event_types: ['*'], sink })
  await post(`${hub.url}/v1/subscriptions/${id}/verify`, {})
  return id
}

async function inTheAir(pool: Pool, receiver: Receiver, hub: RunningHub): Promise<void> {
  await subscribe(hub, receiver.url)
  await arrive(pool, [anEvent(), anEvent()], new Date())
  await until(() => eventsAt(receiver) === 1, 'an attempt is in the air')
}

const laneOf = async (pool: Pool): Promise<unknown> =>
  (await pool.query('select state, solo, in_air from lane')).rows[0] as unknown
const attemptsOf = async (pool: Pool): Promise<unknown[]> =>
  (await pool.query('select outcome from attempt order by id')).rows as unknown[]

/** Exit code, however it ends by itself. */
const ended = async (hub: RunningHub): Promise<number | null> =>
  hub.process.exitCode ?? ((await once(hub.process, 'exit')) as [number | null])[0]

test('an attempt in the air ends and is recorded; what is behind it is given back', async (t) => {
  const { dsn, pool } = await testDatabase()
  const answer = Promise.withResolvers<void>()
  await using receiver = await receiverThat(answer.promise)
  const hub = await hubOn(t, dsn)
  await inTheAir(pool, receiver, hub)
  hub.process.kill('SIGTERM')
  await until(() => hub.lines.some((line) => line.includes('"stopping"')), 'it stops')
  answer.resolve()
  assert.equal(await ended(hub), 0)
  assert.deepEqual(await attemptsOf(pool), [{ outcome: 'delivered' }])
  assert.deepEqual(await laneOf(pool), { state: 'ready', solo: false, in_air: [] })
})

test('a receiver that never answers cannot keep it: the attempt is broken off, recorded as unknown, and taken up at once', async (t) => {
  const { dsn, pool } = await testDatabase()
  await using receiver = await receiverThat('never')
  const hub = await hubOn(t, dsn, { STREAMING_HUB_SHUTDOWN_TIMEOUT: '3s' })
  await inTheAir(pool, receiver, hub)
  assert.equal(await hub.stop(), 0, 'everything was given back')
  assert.deepEqual(await attemptsOf(pool), [{ outcome: 'outcome_unknown' }])
  assert.deepEqual(await laneOf(pool), { state: 'ready', solo: false, in_air: [] })
  const { rows } = await pool.query('select attempts, failures, crashes from delivery order by seq limit 1')
  assert.deepEqual(rows, [{ attempts: 1, failures: 0, crashes: 0 }])
  await hubOn(t, dsn)
  await until(() => eventsAt(receiver) === 2, 'the next hub sends it, before any lease could run out')
})

test('the second signal hurries, and what was in the air is given back all the same', async (t) => {
  const { dsn, pool } = await testDatabase()
  await using receiver = await receiverThat('never')
  const hub = await hubOn(t, dsn, { STREAMING_HUB_SHUTDOWN_TIMEOUT: '10m', STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: '4m' })
  await inTheAir(pool, receiver, hub)
  hub.process.kill('SIGTERM')
  await delay(400)
  assert.equal(hub.process.exitCode, null)
  hub.process.kill('SIGTERM')
  assert.equal(await ended(hub), 0)
  assert.deepEqual(await attemptsOf(pool), [{ outcome: 'outcome_unknown' }])
  assert.deepEqual(await laneOf(pool), { state: 'ready', solo: false, in_air: [] })
})

/** A way to the database that can be made to hang: connections stay, and nothing goes through any more. */
async function wayTo(t: TestContext, dsn: string) {
  const target = new URL(dsn)
  const sockets = new Set<Socket>()
  let hangs = false
  const server = createServer((socket) => {
    sockets.add(socket)
    if (hangs) return
    const through = connect(Number(target.port), target.hostname)
    sockets.add(through)
    socket.on('error', () => through.destroy())
    through.on('error', () => socket.destroy())
    socket.on('data', (data) => !hangs && through.write(data)).on('end', () => !hangs && through.end())
    through.on('data', (data) => !hangs && socket.write(data)).on('end', () => !hangs && socket.end())
  })
  await once(server.listen({ port: 0, host: '127.0.0.1', allowHalfOpen: true }), 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const way = Object.assign(new URL(dsn), { hostname: '127.0.0.1', port: String(port) }).href
  return { dsn: way, hang: () => void (hangs = true) }
}

test('a database that hangs cannot keep it: it says so, and its exit code too', async (t) => {
  const { dsn, pool } = await testDatabase()
  const way = await wayTo(t, dsn)
  const answer = Promise.withResolvers<void>()
  await using receiver = await receiverThat(answer.promise)
  const hub = await hubOn(t, way.dsn, { STREAMING_HUB_SHUTDOWN_TIMEOUT: '3s' })
  await inTheAir(pool, receiver, hub)
  way.hang()
  answer.resolve()
  assert.equal(await hub.stop(), 1)
  assert.ok(
    hub.lines.some((line) => line.includes('parts that hang') && line.includes('database')),
    hub.lines.join('\n'),
  )
})

test('the third signal ends it at once, whatever hangs', async (t) => {
  const { dsn, pool } = await testDatabase()
  const way = await wayTo(t, dsn)
  await using receiver = await receiverThat('never')
  const hub = await hubOn(t, way.dsn, { STREAMING_HUB_SHUTDOWN_TIMEOUT: '10m' })
  await inTheAir(pool, receiver, hub)
  way.hang()
  for (let signals = 0; signals < 3; signals++) {
    hub.process.kill('SIGTERM')
    await delay(400)
  }
  assert.equal(await ended(hub), 143)
})

test('a broker that is gone cannot keep it', async (t) => {
  const { dsn } = await testDatabase()
  const broker = createDevBroker({ port: 0 })
  await broker.start()
  t.after(() => broker.stop(AbortSignal.abort()))
  const hub = await hubOn(t, dsn, {
    STREAMING_HUB_ROLE: 'all',
    STREAMING_HUB_KAFKA_BROKERS: broker.address,
    STREAMING_HUB_SHUTDOWN_TIMEOUT: '4s',
  })
  await until(async () => (await fetch(`${hub.url}/readyz`)).status === 200, 'it is ready')
  await broker.stop(AbortSignal.abort())
  assert.equal(await hub.stop(), 0)
})

test('told to stop while it waits for its database, it stops', async (t) => {
  const way = await wayTo(t, 'postgres://hub@127.0.0.1:1/hub')
  way.hang()
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  await new Promise((closed) => free.close(closed))
  const hubUrl = `http://127.0.0.1:${port}`
  const hub = spawnHub({
    STREAMING_HUB_ROLE: 'delivery',
    STREAMING_HUB_DEV_BROKER_PORT: '0',
    STREAMING_HUB_POSTGRES_DSN: way.dsn,
    STREAMING_HUB_HTTP_LISTEN_ADDR: `127.0.0.1:${port}`,
    STREAMING_HUB_SHUTDOWN_TIMEOUT: '10s',
    STREAMING_HUB_DATA_DIR: dataDir,
  })
  t.after(() => hub.kill())
  const answers = (): Promise<boolean> =>
    fetch(`${hubUrl}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until(answers, 'it serves')
  assert.equal((await fetch(`${hubUrl}/readyz`)).status, 503)
  await hub.stop()
  assert.equal(hub.process.signalCode, null)
})

test('not ready at once, it serves until balancers have seen that, and asks its callers to go elsewhere', async (t) => {
  const { dsn } = await testDatabase()
  const answer = Promise.withResolvers<void>()
  await using receiver = await receiverThat('at once')
  const hub = await hubOn(t, dsn, { STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: '2s', STREAMING_HUB_SHUTDOWN_TIMEOUT: '30s' })
  const id = await subscribe(hub, receiver.url)
  const held = await startReceiver((response, request) => {
    const { challenge } = JSON.parse(request.body.toString()) as { challenge: string }
    void answer.promise.then(() => response.end(challenge))
  })
  t.after(() => held[Symbol.asyncDispose]())
  const kept = new Agent({ keepAliveTimeout: 60_000 })
  t.after(() => kept.close())
  const get = async (path: string) => {
    const { statusCode, headers, body } = await kept.request({
      origin: hub.url,
      path,
      method: 'GET',
      headers: { 'x-tenant-id': 'acme' },
    })
    return { status: statusCode, connection: headers['connection'], body: await body.text() }
  }
  assert.deepEqual((await get(`/v1/subscriptions/${id}`)).connection, 'keep-alive')
  const other = await post(`${hub.url}/v1/subscriptions`, {
    name: 'held',
    event_types: ['*'],
    sink: { kind: 'webhook', url: held.url, timeout: '60s' },
  })
  const verifying = fetch(`${hub.url}/v1/subscriptions/${other.id}/verify`, {
    method: 'POST',
    headers: { 'x-tenant-id': 'acme' },
  })
  await until(() => held.requests.length >= 2, 'a request is under way')

  hub.process.kill('SIGTERM')
  await until(async () => (await get('/readyz')).status === 503, 'it is not ready')
  const during = await get(`/v1/subscriptions/${id}`)
  assert.deepEqual([during.status, during.connection], [200, 'close'])
  assert.match((await get('/readyz')).body, /the hub is stopping/)
  await until(
    () =>
      fetch(`${hub.url}/healthz`).then(
        () => false,
        () => true,
      ),
    'it takes no new connections',
  )
  assert.equal(hub.process.exitCode, null, 'the request under way is waited for')
  answer.resolve()
  assert.equal((await verifying).status, 200)
  assert.equal(await ended(hub), 0)
})
