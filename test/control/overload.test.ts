// What keeps the hub on its feet, over real connections: slow and large requests, too many at once, and a process that is at its limit.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createRegistry } from '../../src/base/metrics.ts'
import type { Authenticator } from '../../src/control/auth/authenticate.ts'
import { SCOPES } from '../../src/control/auth/principal.ts'
import { HTTP_TIMES, PRESSURE } from '../../src/control/overload.ts'
import type { IncomingRecord } from '../../src/event/record.ts'
import { testControl, type Answer, type Call, type TestControl } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'

/** What takes a minute in the hub takes a moment here. */
const quick = { ...HTTP_TIMES, headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 20 }
const json = { 'content-type': 'application/json' }

async function listening(control: TestControl): Promise<() => Socket> {
  await control.server.start()
  const { port } = control.server.address()
  return () => connect(port, '127.0.0.1').on('error', () => undefined)
}

interface Raw {
  status: string | undefined
  headers: string
  problem: { code: string; status: number; retryable: boolean }
}

async function answerOf(socket: Socket): Promise<Raw> {
  const [headers = '', body = ''] = (await text(socket)).split('\r\n\r\n')
  return { status: headers.split(' ')[1], headers, problem: JSON.parse(body) as Raw['problem'] }
}

describe('a request that comes too slowly', () => {
  const slow: [string, string][] = [
    ['in its headers', 'GET /healthz HTTP/1.1\r\nhost: hub\r\nx-a: '],
    [
      'in its body',
      'POST /v1/subscriptions HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{',
    ],
    ['in its chunks', 'POST /v1/ingest HTTP/1.1\r\nhost: hub\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n'],
  ]
  for (const [where, head] of slow) {
    test(`${where} is answered 408, and its connection closed`, async () => {
      await using control = await testControl({ times: quick })
      const socket = (await listening(control))()
      socket.write(head)
      const { status, headers, problem } = await answerOf(socket)
      assert.equal(status, '408')
      assert.match(headers, /connection: close/)
      assert.deepEqual([problem.code, problem.status, problem.retryable], ['request_timeout', 408, true])
    })
  }

  test('holds up nobody else, however many there are', async () => {
    await using control = await testControl({ times: quick })
    const open = await listening(control)
    const slowOnes = Array.from({ length: 100 }, () => {
      const socket = open()
      socket.write('GET /healthz HTTP/1.1\r\nx-a: ')
      return socket
    })
    const { port } = control.server.address()
    assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200)
    const answers = await Promise.all(slowOnes.map((socket) => answerOf(socket)))
    assert.ok(answers.every(({ status }) => status === '408'))
  })
})

test('a connection that says nothing at all is closed', async () => {
  await using control = await testControl({
    times: { ...quick, headersTimeout: 60_000, requestTimeout: 60_000, connectionTimeout: 50 },
  })
  const socket = (await listening(control))()
  socket.resume()
  await once(socket, 'close')
})

test('headers that are too large are answered 431', async () => {
  await using control = await testControl()
  const socket = (await listening(control))()
  socket.write(`GET /healthz HTTP/1.1\r\nhost: hub\r\nx-a: ${'a'.repeat(20_000)}\r\n\r\n`)
  const { status, problem } = await answerOf(socket)
  assert.deepEqual([status, problem.code, problem.status], ['431', 'headers_too_large', 431])
})

describe('a body that is too large', () => {
  const routes: [NonNullable<Call['method']>, string][] = [
    ['POST', '/v1/subscriptions'],
    ['PATCH', '/v1/subscriptions/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'],
    ['DELETE', '/v1/subscriptions/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'],
    ['POST', '/v1/subscriptions/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10/verify'],
    ['POST', '/v1/subscriptions/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10/replay'],
    ['POST', '/v1/deliveries/01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10/retry'],
    ['POST', '/v1/ingest'],
    ['POST', '/admin/breakers/x/reset'],
  ]
  test('is a 413 of every route that takes one, or takes none', async () => {
    await using control = await testControl()
    const raw = Buffer.alloc(2 << 20, 0x20)
    for (const [method, url] of routes)
      assertProblem(await control.call({ method, url, headers: json, raw }), 413, 'payload_too_large')
  })

  test('is refused by what it says of its length, before it has come', async () => {
    await using control = await testControl()
    const socket = (await listening(control))()
    socket.write(
      'POST /v1/subscriptions HTTP/1.1\r\nhost: hub\r\ncontent-type: application/json\r\ncontent-length: 999999999\r\n\r\n',
    )
    const { status, headers, problem } = await answerOf(socket)
    assert.deepEqual([status, problem.code], ['413', 'payload_too_large'])
    assert.match(headers, /connection: close/i)
  })

  test('is not read at all for whoever is not let in', async () => {
    await using control = await testControl({ authenticators: [] })
    const socket = (await listening(control))()
    socket.write(
      'POST /v1/subscriptions HTTP/1.1\r\nhost: hub\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 99999\r\n\r\n',
    )
    assert.equal((await answerOf(socket)).status, '401')
  })
})

describe('a process at its limit', () => {
  test('answers tenants 503, when to ask again, and counts it; operators and health are served', async () => {
    const registry = createRegistry({ processMetrics: false })
    await using control = await testControl({ registry, pressure: { ...PRESSURE, maxHeapUsedBytes: 1 } })
    // The first measure is taken after a second.
    const answer = await answered(control, { url: '/v1/subscriptions' }, 503)
    assertProblem(answer, 503, 'unavailable')
    assert.equal(answer.headers['retry-after'], '5')
    assertProblem(await control.call({ method: 'POST', url: '/v1/ingest', raw: 'x' }), 503, 'unavailable')
    for (const url of ['/healthz', '/readyz', '/metrics', '/admin/lag', '/admin/tenants'])
      assert.equal((await control.call({ url })).status, 200, url)
    assert.match(await registry.metrics(), /hub_http_refused_total\{tier="pressure"\} 2\n/)
  })
})

/** Resolves when so many requests have come over connections. */
async function arrivals({ server }: TestControl, count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let arrived = 0
  server.api.server.on('request', () => {
    if (++arrived === count) resolve()
  })
  await promise
  await nextTurn()
}

/** The first answer of this status. */
async function answered(control: TestControl, call: Call, status: number): Promise<Answer> {
  for (;;) {
    const answer = await control.call(call)
    if (answer.status === status) return answer
    // Injected requests alone would leave the event loop no turn.
    await nextTurn()
  }
}

/** Everybody is the tenant of `x-tenant-id`. */
const anybody: Authenticator = {
  name: 'anybody',
  authenticate: async ({ headers }) => ({
    tenantId: String(headers['x-tenant-id']),
    isConfined: false,
    scopes: new Set(SCOPES),
    kind: 'local',
    id: 'anybody',
    name: 'anybody',
  }),
}

const HEAD_OF_A =
  'POST /v1/subscriptions HTTP/1.1\r\nhost: hub\r\nx-tenant-id: a\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n'

describe('requests that are under way', () => {
  test('are bounded for each tenant, and given back when they end', async () => {
    const registry = createRegistry({ processMetrics: false })
    await using control = await testControl({ authenticators: [anybody], registry })
    const open = await listening(control)
    const arrived = arrivals(control, 128)
    const waiting = Array.from({ length: 128 }, () => {
      const socket = open()
      socket.write(`${HEAD_OF_A}{`)
      return socket
    })
    await arrived
    const list: Call = { url: '/v1/subscriptions' }
    const answer = await control.call({ ...list, tenant: 'a' })
    assertProblem(answer, 429, 'rate_limited')
    assert.equal(answer.headers['retry-after'], '1')
    assert.match(await registry.metrics(), /hub_http_refused_total\{tier="in_flight"\} 1\n/)
    assert.equal((await control.call({ ...list, tenant: 'b' })).status, 200)
    assert.equal((await control.call({ url: '/admin/lag', tenant: 'a' })).status, 200)
    // Half of them end well, and half hang up.
    for (const [i, socket] of waiting.entries()) {
      if (i % 2 === 0) socket.destroy()
      else socket.end('}')
    }
    await answered(control, { ...list, tenant: 'a' }, 200)
    const all = await Promise.all(Array.from({ length: 128 }, () => control.call({ ...list, tenant: 'a' })))
    assert.deepEqual([...new Set(all.map(({ status }) => status))], [200])
  })

  test('that take events in are bounded for the hub as a whole', async () => {
    const [begun, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let writing = 0
    const ingest = async (records: readonly IncomingRecord[]) => {
      if (++writing === 64) begun.resolve()
      await written.promise
      return records.map(() => ({ kind: 'dropped' as const }))
    }
    await using control = await testControl({ ingest, authenticators: [anybody] })
    const headers = { 'content-type': 'application/cloudevents-batch+json' }
    const send = (tenant: string) =>
      control.call({ method: 'POST', url: '/v1/ingest', tenant, headers, raw: '[{"specversion":"1.0"}]' })
    const first = [...Array.from({ length: 48 }, () => send('a')), ...Array.from({ length: 16 }, () => send('b'))]
    await begun.promise
    assertProblem(await send('a'), 429, 'rate_limited')
    const refused = await send('b')
    assertProblem(refused, 503, 'unavailable')
    assert.equal(refused.headers['retry-after'], '1')
    written.resolve()
    assert.deepEqual([...new Set((await Promise.all(first)).map(({ status }) => status))], [200])
    assert.equal((await send('a')).status, 200)
  })
})

test('connections are bounded, and those too many are counted', async () => {
  const registry = createRegistry({ processMetrics: false })
  await using control = await testControl({ registry })
  const open = await listening(control)
  control.server.api.server.maxConnections = 2
  const kept = [open(), open()]
  await Promise.all(kept.map((socket) => once(socket, 'connect')))
  const dropped = open()
  dropped.resume()
  await once(dropped, 'close')
  assert.match(await registry.metrics(), /hub_http_refused_total\{tier="connections"\} 1\n/)
  for (const socket of kept) socket.destroy()
})
