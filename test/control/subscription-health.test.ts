import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { deliver, publish, subscribe } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { assertProblem } from '../support/problems.ts'
import { testDispatcher } from '../support/dispatch.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'

const HOUR = 3_600_000

let control: TestControl
before(async () => void (control = await testControl()))
after(async () => await control[Symbol.asyncDispose]())

interface Health {
  since: string
  success_rate: number | null
  attempts: Record<string, number>
  deliveries: Record<string, number | null>
  latency_ms: { p50: number | null; p95: number | null }
  last_success_at: string | null
  last_failure_at: string | null
  failure_streak: { first_failure_at: string; last_failure_at: string } | null
  breaker: { state: string; failures: number; blocked_until: string | null }
  backlog: Record<string, unknown>
  auto_disable: { enabled: boolean; disables_at: string | null }
}

async function health(tenant: string, id: string): Promise<Health> {
  const answer = await control.call({ url: `/v1/subscriptions/${id}/health`, tenant })
  assert.equal(answer.status, 200, answer.text)
  return answer.body as Health
}

const iso = (at: number): string => new Date(at).toISOString()

test('a subscription that nothing has happened to has no rates, no streak and no backlog', async () => {
  const { id } = await subscribe(control, 'new')
  const found = await health('new', id)
  assert.equal(found.success_rate, null)
  assert.deepEqual(found.latency_ms, { p50: null, p95: null })
  assert.deepEqual(found.attempts, { total: 0, delivered: 0, failed: 0, outcome_unknown: 0 })
  assert.equal(found.failure_streak, null)
  assert.equal(found.breaker.state, 'closed')
  assert.equal(found.backlog['oldest_created_at'], null)
  assert.deepEqual(found.auto_disable, { enabled: true, disables_at: null })
})

test('successes and failures make the rates, the latency, the streak and the forecast', async () => {
  const { id } = await subscribe(control, 'mixed', { retry_schedule: ['0s', '10h'] })
  const { clock } = control
  const latencies = [20, 20, 20, 4_000]
  for (const took of latencies) {
    await publish(control, 'mixed')
    await deliver(control, () => (clock.advance(took), delivered))
  }
  const lastSuccess = clock.now()
  clock.advance(1_000)
  for (let n = 0; n < 4; n++) await publish(control, 'mixed')
  const began = clock.now()
  await deliver(control, () => failed())
  const found = await health('mixed', id)
  assert.equal(found.success_rate, 0.5)
  assert.deepEqual(found.attempts, { total: 8, delivered: 4, failed: 4, outcome_unknown: 0 })
  assert.deepEqual(found.deliveries, { delivered: 4, dead_lettered: 0, success_rate: 1 })
  // The four failures took no time at all.
  const { p50, p95 } = found.latency_ms
  assert.ok(p50 !== null && p50 <= 5 && p95 !== null && p95 > 3_300 && p95 <= 5_000, JSON.stringify(found.latency_ms))
  assert.equal(found.last_success_at, iso(lastSuccess))
  assert.equal(found.last_failure_at, iso(began))
  assert.deepEqual(found.failure_streak, { first_failure_at: iso(began), last_failure_at: iso(began) })
  assert.deepEqual(found.auto_disable, { enabled: true, disables_at: iso(began + 120 * HOUR) })
  const { next_attempt_at: next, ...backlog } = found.backlog
  assert.deepEqual(backlog, {
    state: 'waiting',
    queued: 0,
    retrying: 4,
    is_exact: true,
    oldest_created_at: iso(began),
    oldest_age_seconds: 0,
  })
  assert.ok(typeof next === 'string' && next >= iso(began))
})

test('an open breaker holds the next attempt back, and a disabled subscription has none', async () => {
  const { id } = await subscribe(control, 'broken', { retry_schedule: ['0s', '0s', '0s', '0s', '0s', '0s', '0s'] })
  await publish(control, 'broken')
  await deliver(control, () => failed())
  const open = await health('broken', id)
  assert.equal(open.breaker.state, 'open')
  assert.equal(open.breaker.failures, 5)
  assert.equal(open.backlog['next_attempt_at'], open.breaker.blocked_until)
  await control.call({ method: 'PATCH', url: `/v1/subscriptions/${id}`, tenant: 'broken', body: { enabled: false } })
  const off = await health('broken', id)
  assert.equal(off.backlog['next_attempt_at'], null)
  assert.equal(off.auto_disable.disables_at, null)
})

test('an attempt without an outcome counts neither for nor against', async () => {
  const { id } = await subscribe(control, 'unknown')
  await publish(control, 'unknown')
  const { pool } = control.database
  const lost = testDispatcher({ pool, clock: control.clock, sink: scriptedSink(() => new Promise(() => undefined)) })
  await lost.claim()
  control.clock.advance(60_000)
  await lost.tick()
  const found = await health('unknown', id)
  assert.equal(found.success_rate, null)
  assert.equal(found.attempts['outcome_unknown'], 1)
})

test('the window begins with a full hour, and what was before it no longer counts', async () => {
  const { id } = await subscribe(control, 'old')
  await publish(control, 'old')
  await deliver(control)
  control.clock.advance(721 * HOUR)
  await publish(control, 'old')
  await deliver(control)
  const found = await health('old', id)
  assert.equal(found.attempts['total'], 1)
  assert.match(found.since, /:00:00\.000Z$/)
})

test('is found by its own tenant alone', async () => {
  const { id } = await subscribe(control, 'mine')
  assertProblem(await control.call({ url: `/v1/subscriptions/${id}/health`, tenant: 'others' }), 404, 'not_found')
})
