// No part takes a second connection while it holds one: each write path works on a pool of one connection, where that would wait for
// itself. What can happen at once is done at once.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { keepDeadLetters } from '../../src/ingest/dead-letters.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { deadLetterMetrics, ingestMetrics } from '../../src/ingest/metrics.ts'
import { createPool, type Pool } from '../../src/store/pool.ts'
import { Replays } from '../../src/upkeep/replays.ts'
import { manualClock } from '../support/clock.ts'
import { testControl } from '../support/control.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { recordWith } from '../support/records.ts'
import { failed, scriptedSink } from '../support/scripted-sink.ts'

const batch = (partition: number) => [
  recordWith({}, { position: { partition, offset: 0n } }),
  recordWith({ id: 'no' }, { position: { partition, offset: 1n } }),
]

function onlyOne(t: TestContext, dsn: string): Pool {
  const pool = createPool({ dsn, maxConnections: 1, applicationName: 'one', onError: () => undefined })
  t.after(() => pool.end())
  return pool
}

test('ingest, of good records, malformed ones and dead letters at once', async (t) => {
  const { dsn } = await testDatabase()
  const pool = onlyOne(t, dsn)
  const registry = createRegistry({ processMetrics: false })
  const deps = {
    pool,
    clock: manualClock(),
    log: silentLog,
    metrics: ingestMetrics(registry),
    onWoken: () => undefined,
  }
  const dead = { source: 'lender', topic: 'lerian.streaming.lender.dlq', partition: 0, records: batch(9) }
  const [results] = await Promise.all([
    Promise.all(Array.from({ length: 8 }, (_, partition) => ingest(batch(partition), deps))),
    keepDeadLetters(dead, { pool, clock: manualClock(), metrics: deadLetterMetrics(registry) }),
  ])
  assert.equal(results.flat().filter(({ kind }) => kind === 'quarantined').length, 8)
})

test('dispatch, with failures that open breakers, and replays', async (t) => {
  const { dsn } = await testDatabase()
  const pool = onlyOne(t, dsn)
  const clock = manualClock()
  for (const ordering of ['fifo', 'strict', 'parallel'] as const) {
    for (let n = 0; n < 4; n++) await insertSubscription(pool, { ordering, destinationKey: `shared-${n}` })
  }
  await arrive(
    pool,
    Array.from({ length: 20 }, () => anEvent()),
    new Date(clock.now()),
  )
  const dispatcher = testDispatcher({ pool, clock, sink: scriptedSink(() => failed()) })
  const replays = new Replays({ pool, clock, log: silentLog, onQueued: () => undefined })
  for (let round = 0; round < 5; round++) {
    await Promise.all([drain(dispatcher), dispatcher.tick(), replays.tick()])
    clock.advance(60_000)
  }
  const { rows } = await pool.query<{ n: number }>('select count(*) as n from attempt')
  assert.ok((rows[0]?.n ?? 0) > 20)
})

test('the API, with many requests at once', async (t) => {
  const { dsn } = await testDatabase()
  await using control = await testControl({ pool: onlyOne(t, dsn) })
  const make = async (n: number): Promise<void> => {
    const body = { name: `s${n}`, event_types: ['*'], sink: { kind: 'webhook', url: 'https://example.com/' } }
    const made = await control.call({ method: 'POST', url: '/v1/subscriptions', tenant: 'acme', body })
    assert.equal(made.status, 201, made.text)
    const { id } = made.body as { id: string }
    const url = `/v1/subscriptions/${id}`
    const calls = [
      { method: 'PATCH' as const, url, body: { name: 'other' }, headers: { 'content-type': 'application/json' } },
      { method: 'POST' as const, url: `${url}/verify` },
      { method: 'POST' as const, url: `${url}/rotate-secret` },
      { method: 'POST' as const, url: `${url}/test` },
      { method: 'GET' as const, url: `${url}/deliveries` },
      { method: 'GET' as const, url: '/admin/tenants' },
      { method: 'GET' as const, url: '/admin/singletons' },
    ]
    const answers = await Promise.all(calls.map((call) => control.call({ tenant: 'acme', ...call })))
    for (const { status, text } of answers) assert.ok(status < 500, text)
    assert.equal((await control.call({ method: 'DELETE', url, tenant: 'acme' })).status, 204)
  }
  await Promise.all(Array.from({ length: 10 }, (_, n) => make(n)))
})
