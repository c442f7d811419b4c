// Tests sent by hand, through a runner of the dispatch engine beside the API.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { systemClock, type Clock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { dispatchMetrics } from '../../src/dispatch/metrics.ts'
import { Postponements } from '../../src/dispatch/postponement.ts'
import { TestDeliveries } from '../../src/dispatch/test-deliveries.ts'
import { SecretError } from '../../src/secrets/secrets.ts'
import type { Destination } from '../../src/sinks/sink.ts'
import { deliver, publish, subscribe } from '../support/api.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { assertFaults, assertProblem } from '../support/problems.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'

interface Sent {
  delivery: {
    id: string
    kind: string
    state: string
    reason: string | null
    attempt_count: number
    last_error: string | null
  }
  attempt: Record<string, unknown> | null
}

const sink = scriptedSink()
let control: TestControl
let runner: TestDeliveries
let openable = true
let runs = true
before(async () => {
  control = await testControl({
    clock: systemClock,
    testWaitMs: 60_000,
    onTest: () => (runs ? runner.wake() : undefined),
  })
  runner = runnerOf(control, systemClock)
  runner.start()
})
after(async () => {
  await runner.stop(AbortSignal.timeout(10_000))
  await control[Symbol.asyncDispose]()
})

function runnerOf({ database: { pool } }: TestControl, clock: Clock): TestDeliveries {
  const metrics = dispatchMetrics(createRegistry({ processMetrics: false }))
  const common = { clock, log: silentLog, metrics, random: Math.random }
  const destination: Destination = {
    subscriptionId: '',
    tenantId: '',
    timeoutMs: 30_000,
    sink: { kind: 'webhook', url: 'https://example.com/', headers: {} },
    contentMode: 'binary',
    signingKeys: [],
  }
  const destinationOf = async () => {
    if (!openable) throw new SecretError('unknown_key', 'no such key')
    return { sink, destination }
  }
  return new TestDeliveries({ ...common, pool, postponements: new Postponements(common), destinationOf })
}

async function send(tenant: string, id: string, body?: object): Promise<Answer> {
  return await control.call({
    method: 'POST',
    url: `/v1/subscriptions/${id}/test`,
    tenant,
    ...(body && { body }),
  })
}

const rows = async (text: string): Promise<unknown[]> => (await control.database.pool.query(text)).rows

describe('a test of a subscription', () => {
  test('is a delivery of its own kind, made once, and answered with its attempt', async () => {
    const { id } = await subscribe(control, 'first')
    sink.script = () => delivered
    const answer = await send('first', id)
    assert.equal(answer.status, 200, answer.text)
    const { delivery, attempt } = answer.body as Sent
    assert.equal(answer.headers['location'], `/v1/deliveries/${delivery.id}`)
    assert.deepEqual([delivery.kind, delivery.state, delivery.attempt_count], ['test', 'delivered', 1])
    assert.equal(attempt?.['outcome'], 'delivered')
    assert.equal(attempt?.['status'], 200)
    assert.equal(attempt?.['response'], 'ok')
    const sent = sink.attempts.at(-1)
    assert.equal(sent?.attemptId, attempt?.['delivery_id'])
    assert.equal(sent?.event.key, 'hub.test')
    assert.equal(sent?.event.attributes['test'], 'true')
    assert.equal(sent?.event.attributes['type'], 'studio.lerian.hub.hub.test')
    assert.equal((JSON.parse(String(sent?.event.data)) as { type: string }).type, 'hub.test')
    const found = await control.call({ url: `/v1/deliveries/${delivery.id}`, tenant: 'first' })
    assert.equal((found.body as { attempts: unknown[] }).attempts.length, 1)
    const list = await control.call({ url: `/v1/subscriptions/${id}/deliveries`, tenant: 'first' })
    assert.equal((list.body as { items: unknown[] }).items.length, 1)
  })

  test('carries an event type that the subscription asks for, and data of its owner', async () => {
    const { id } = await subscribe(control, 'own', { event_types: ['loan.*'], origin: 'lender', schema_major: 3 })
    sink.script = () => delivered
    assert.equal((await send('own', id, { event_type: 'loan.approved', data: { amount: 1 } })).status, 200)
    const event = sink.attempts.at(-1)?.event
    assert.equal(event?.attributes['type'], 'studio.lerian.lender.loan.approved')
    assert.equal(event?.attributes['schemaversion'], '3.0.0')
    assert.equal(String(event?.data), '{"amount":1}')
    assertFaults(await send('own', id, { event_type: 'card.lost' }), ['/event_type'])
    assertFaults(await send('own', id, { event_type: 'loan.*' }), ['/event_type'])
  })

  test('that fails is not tried again, and moves neither breaker, streak nor health', async () => {
    const { id } = await subscribe(control, 'broken')
    sink.script = () => failed({ status: 503, detail: 'answered 503' })
    for (let n = 0; n < 6; n++) {
      const { delivery, attempt } = (await send('broken', id)).body as Sent
      assert.deepEqual([delivery.state, delivery.reason], ['dead_lettered', 'exhausted'])
      assert.equal(attempt?.['error_class'], 'http_status')
      assert.equal(attempt?.['error_detail'], 'answered 503')
    }
    const lane = `select first_failure_at, state from lane where tenant_id = 'broken'`
    assert.deepEqual(await rows(lane), [{ first_failure_at: null, state: 'ready' }])
    assert.deepEqual(await rows(`select state, failures from destination where tenant_id = 'broken'`), [
      { state: 'closed', failures: 0 },
    ])
    assert.deepEqual(await rows(`select from outcome_hour where tenant_id = 'broken'`), [])
    const dead = await control.call({ url: '/admin/dead-letters?tenant_id=broken' })
    assert.deepEqual((dead.body as { items: unknown[] }).items, [])
  })

  test('goes out before a queue that a strict head blocks, and while the subscription is disabled; the queue stays as it is', async () => {
    const { id } = await subscribe(control, 'queued', { ordering: 'strict' })
    await publish(control, 'queued')
    await deliver(control, () => failed())
    await control.call({ method: 'PATCH', url: `/v1/subscriptions/${id}`, tenant: 'queued', body: { enabled: false } })
    const queue = await rows(`select * from delivery where tenant_id = 'queued'`)
    sink.script = () => delivered
    assert.equal(((await send('queued', id)).body as Sent).delivery.state, 'delivered')
    assert.deepEqual(await rows(`select * from delivery where tenant_id = 'queued'`), queue)
  })

  test("to an address that is not verified is the hub's own sample only", async () => {
    control.probe.outcome = failed()
    const { id } = await subscribe(control, 'unverified')
    control.probe.outcome = delivered
    sink.script = () => delivered
    assert.equal((await send('unverified', id)).status, 200)
    assertProblem(await send('unverified', id, { data: 1 }), 409, 'conflict')
  })

  test('cannot be retried or replayed, and is no event', async () => {
    const { id } = await subscribe(control, 'once')
    sink.script = () => failed()
    const { delivery } = (await send('once', id)).body as Sent
    const retry = { method: 'POST' as const, url: `/v1/deliveries/${delivery.id}/retry`, tenant: 'once' }
    assertProblem(await control.call(retry), 409, 'conflict')
    const replay = await control.call({
      method: 'POST',
      url: `/v1/subscriptions/${id}/replay`,
      tenant: 'once',
      body: { since: '2020-01-01T00:00:00Z', states: ['dead_lettered', 'delivered'], dry_run: true },
    })
    assert.equal((replay.body as { total: number }).total, 0)
    assert.deepEqual(await rows(`select from event_inbox where tenant_id = 'once'`), [])
  })

  test('whose secrets the hub cannot open is cancelled without an attempt', async () => {
    const { id } = await subscribe(control, 'sealed')
    openable = false
    const { delivery, attempt } = (await send('sealed', id)).body as Sent
    openable = true
    assert.deepEqual([delivery.state, delivery.reason, attempt], ['dead_lettered', 'cancelled', null])
  })

  test('is sent by whichever replica finds it, when the one that was asked runs none', async () => {
    const { id } = await subscribe(control, 'elsewhere')
    sink.script = () => delivered
    runs = false
    const answer = await send('elsewhere', id)
    runs = true
    assert.equal(answer.status, 200)
  })

  test("is another tenant's nothing", async () => {
    const { id } = await subscribe(control, 'owner')
    assertProblem(await send('stranger', id), 404, 'not_found')
    assert.deepEqual(await rows(`select from test_delivery where tenant_id = 'stranger'`), [])
  })
})

describe('a test that nobody finishes', () => {
  test('is answered by 202 and where to look, and is cancelled after a quarter of an hour', async () => {
    await using alone = await testControl()
    const { id } = await subscribe(alone, 'alone')
    const answer = await alone.call({ method: 'POST', url: `/v1/subscriptions/${id}/test`, tenant: 'alone' })
    assert.equal(answer.status, 202)
    const { delivery, attempt } = answer.body as Sent
    assert.deepEqual([delivery.state, attempt], ['queued', null])
    const look = { url: `/v1/deliveries/${delivery.id}`, tenant: 'alone' }
    assert.equal((await alone.call(look)).status, 200)
    alone.clock.advance(16 * 60_000)
    await runnerOf(alone, alone.clock).step()
    const { state, reason } = (await alone.call(look)).body as Sent['delivery']
    assert.deepEqual([state, reason], ['dead_lettered', 'cancelled'])
  })

  test('because its dispatcher is gone has an attempt of unknown outcome, and no other', async () => {
    await using alone = await testControl()
    const { id } = await subscribe(alone, 'gone')
    const answer = await alone.call({ method: 'POST', url: `/v1/subscriptions/${id}/test`, tenant: 'gone' })
    let sent = 0
    sink.script = async () => (sent++, await new Promise<never>(() => undefined))
    await runnerOf(alone, alone.clock).step()
    alone.clock.advance(60_000)
    const other = runnerOf(alone, alone.clock)
    await other.step()
    await other.settled()
    assert.equal(sent, 1)
    const { delivery } = answer.body as Sent
    const found = await alone.call({ url: `/v1/deliveries/${delivery.id}`, tenant: 'gone' })
    const { state, attempts } = found.body as { state: string; attempts: { outcome: string }[] }
    assert.deepEqual([state, attempts.map(({ outcome }) => outcome)], ['dead_lettered', ['outcome_unknown']])
  })
})
