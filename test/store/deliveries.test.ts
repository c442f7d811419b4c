import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  findDelivery,
  hastenDelivery,
  listAttempts,
  listDeadLetters,
  listDeliveries,
  listEventDeliveries,
  replayDelivery,
  type DeliveryList,
} from '../../src/store/deliveries.ts'
import { findEvent } from '../../src/store/events.ts'
import { makePartitions } from '../../src/store/partitions.ts'
import type { Pool } from '../../src/store/pool.ts'
import type { TenantDatabase } from '../../src/store/tenant.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { anEvent, arrive, insertSubscription, uuid7 } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'
import { tenantDatabase } from '../support/tenant.ts'

const NOW = Date.parse('2026-05-14T13:00:00Z')
const DAY = 86_400_000

let database: TestDatabase
let pool: Pool
let acme: TenantDatabase
let globex: TenantDatabase
before(async () => {
  database = await testDatabase()
  pool = database.pool
  acme = tenantDatabase(pool, 'acme')
  globex = tenantDatabase(pool, 'globex')
  for (let week = 0; week < 6; week++) await makePartitions(pool, new Date(NOW - week * 7 * DAY), 0)
})
after(async () => await database.drop())

/** Many deliveries of one subscription, `count` unfinished and as many finished, one a minute back from now. */
async function fill(subscriptionId: string, count: number): Promise<void> {
  await pool.query(
    `insert into delivery (id, tenant_id, subscription_id, ce_id, attempts, due_at, created_at)
     select uuid7(at), 'acme', $1, uuid7(at), (n % 500 = 0)::integer, at, at
     from generate_series(1, $2::integer) n, lateral (select $3::timestamptz - n * interval '2 minutes' as at) t`,
    [subscriptionId, count, new Date(NOW)],
  )
  await pool.query(
    `insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at, finished_at)
     select uuid7(at), n, 'acme', $1, uuid7(at), 'event', case when n % 500 = 0 then 'dead_lettered' else 'delivered' end,
       case when n % 500 = 0 then 'exhausted' end, 1, 0, 0, at, at
     from generate_series(1, $2::integer) n, lateral (select $3::timestamptz - n * interval '2 minutes' - interval '1 minute' as at) t`,
    [subscriptionId, count, new Date(NOW)],
  )
}

const page = (given: Partial<DeliveryList>): DeliveryList => ({
  subscriptionId: '',
  before: null,
  limit: 100,
  state: null,
  since: null,
  until: null,
  eventId: null,
  kind: null,
  reason: null,
  lastStatus: null,
  eventType: null,
  ...given,
})

const listed = async (db: TenantDatabase, given: Partial<DeliveryList>) => (await listDeliveries(db, page(given))).found

const cheap = async (
  what: string,
  bound: number,
  work: (db: TenantDatabase) => Promise<unknown>,
  as: string | null = 'acme',
): Promise<void> => {
  for (const { sequentialScans, buffers, text } of await plansOf(pool, work, as)) {
    assert.deepEqual(sequentialScans, [], `${what}: ${text}`)
    assert.ok(buffers <= bound, `${what} touches ${buffers} pages: ${text}`)
  }
}

describe('beside deep backlogs and long histories', () => {
  let subscriptionId: string
  before(async () => {
    subscriptionId = (await insertSubscription(pool)).id
    await fill(subscriptionId, 20_000)
    await fill((await insertSubscription(pool)).id, 5_000)
    await pool.query('analyze')
  })

  test('a page of a subscription costs the page', async () => {
    const [middle] = await listed(acme, { subscriptionId, limit: 1, until: new Date(NOW - 10 * DAY) })
    for (const given of [
      {},
      { before: middle!.id },
      { state: 'queued' },
      { state: 'delivered' },
      { since: new Date(NOW - DAY) },
      { lastStatus: 418 },
      { kind: 'replay' },
      { reason: 'exhausted' },
    ] as const) {
      await cheap(
        JSON.stringify(given),
        1000,
        async (db) => await listDeliveries(db, page({ subscriptionId, ...given })),
      )
    }
  })

  test('a page by event type costs a look at two thousand events, not more', async () => {
    const given = page({ subscriptionId, eventType: 'loan.approved' })
    await cheap('event type', 8000, async (db) => await listDeliveries(db, given))
  })

  test('what is rarely being retried in a deep backlog is found without reading it', async () => {
    const retrying = page({ subscriptionId, state: 'retrying' })
    assert.equal((await listDeliveries(acme, retrying)).found.length, 40)
    await cheap('retrying', 300, async (db) => await listDeliveries(db, retrying))
  })

  test('the rare dead letters of a long history are found without reading it', async () => {
    const found = await listed(acme, { subscriptionId, state: 'dead_lettered' })
    assert.equal(found.length, 40)
    await cheap(
      'dead letters of one',
      300,
      async (db) => await listDeliveries(db, page({ subscriptionId, state: 'dead_lettered' })),
    )
    const all = {
      before: null,
      limit: 100,
      tenantId: null,
      subscriptionId: null,
      reason: null,
      since: null,
      until: null,
    }
    await cheap('dead letters of all', 300, async (db) => await listDeadLetters(db, all), null)
  })

  test('so do one delivery, its attempts, and those of an event', async () => {
    const [delivery] = await listed(acme, { subscriptionId, limit: 1 })
    assert.ok(delivery)
    const { id, eventId } = delivery
    await cheap('one', 30, async (db) => await findDelivery(db, id))
    await cheap('attempts', 30, async (db) => await listAttempts(db, delivery, { after: null, limit: 101 }))
    const event = { id: eventId, receivedAt: delivery.createdAt, limit: 1000 }
    await cheap('of an event', 60, async (db) => await listEventDeliveries(db, event))
    await cheap('an event', 30, async (db) => await findEvent(db, eventId))
    await cheap('hastening', 60, async (db) => await hastenDelivery(db, { id, now: new Date(NOW) }))
    await cheap('a replay', 60, async (db) => await replayDelivery(db, { id, now: new Date(NOW) }))
  })
})

describe('what is another tenant’s', () => {
  test('is neither found, nor listed, nor changed', async () => {
    const { id: subscriptionId } = await insertSubscription(pool)
    const event = anEvent({ tenantId: 'acme' })
    await arrive(pool, [event], new Date(NOW))
    const [delivery] = await listed(acme, { subscriptionId })
    assert.ok(delivery)
    assert.equal(await findDelivery(globex, delivery.id), null)
    assert.deepEqual(await listed(globex, { subscriptionId }), [])
    assert.deepEqual(await listEventDeliveries(globex, { id: event.id, receivedAt: new Date(NOW), limit: 9 }), [])
    assert.equal(await findEvent(globex, event.id), null)
    assert.equal(await hastenDelivery(globex, { id: delivery.id, now: new Date(0) }), false)
    assert.deepEqual(await findDelivery(acme, delivery.id), delivery)
  })

  test('cannot be replayed', async () => {
    const { id: subscriptionId } = await insertSubscription(pool)
    const event = anEvent()
    await arrive(pool, [event], new Date(NOW))
    const id = uuid7(NOW)
    await pool.query(
      `insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, attempts, failures, crashes, created_at, finished_at)
       values ($1, 1, 'acme', $2, $3, 'event', 'delivered', 1, 0, 0, now(), now())`,
      [id, subscriptionId, event.id],
    )
    assert.equal(await replayDelivery(globex, { id, now: new Date(NOW) }), null)
    const replay = await replayDelivery(acme, { id, now: new Date(NOW) })
    assert.equal(replay?.kind, 'replay')
    assert.equal(replay.state, 'queued')
  })
})
