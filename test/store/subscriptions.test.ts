import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Subscription } from '../../src/event/subscription.ts'
import { listBreakers } from '../../src/store/breakers.ts'
import type { Pool } from '../../src/store/pool.ts'
import {
  findSubscription,
  insertSubscription,
  listSubscriptions,
  lockSubscription,
  markDeleted,
  renewLane,
  rotateSecret,
  updateSubscription,
} from '../../src/store/subscriptions.ts'
import { tenantStore, type TenantDatabase } from '../../src/store/tenant.ts'
import { listTenants } from '../../src/store/tenants.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { plansOf } from '../support/plans.ts'
import { tenantDatabase } from '../support/tenant.ts'

let database: TestDatabase
let pool: Pool
let acme: TenantDatabase
before(async () => {
  database = await testDatabase()
  pool = database.pool
  acme = tenantDatabase(pool, 'acme')
})
after(async () => await database.drop())

const NOW = new Date('2026-05-14T13:00:00.123Z')

async function store(given: Partial<Subscription> = {}): Promise<Subscription> {
  const subscription: Subscription = {
    id: uuid7(),
    tenantId: 'acme',
    name: 'all',
    enabled: true,
    verificationState: 'pending',
    origin: null,
    eventTypes: ['*'],
    schemaMajor: null,
    sink: { kind: 'webhook', url: 'https://example.com/', headers: { 'x-a': 'b' } },
    destinationKey: 'key',
    contentMode: 'binary',
    ordering: 'fifo',
    retrySchedule: null,
    timeoutMs: 30_000,
    disabledReason: null,
    disabledByOwner: false,
    disabledAt: null,
    metadata: {},
    version: 1,
    createdAt: NOW,
    updatedAt: NOW,
    ...given,
  }
  const tenant = tenantDatabase(pool, subscription.tenantId)
  await insertSubscription(tenant, { subscription, secret: { field: 'signing_secret', sealed: 'sealed' } })
  return subscription
}

describe('a stored subscription', () => {
  test('comes back as it was', async () => {
    const given = {
      origin: 'lender',
      schemaMajor: 0,
      eventTypes: ['a.b', 'c.*'],
      retrySchedule: [0, 5000],
      metadata: { a: '\u0000', b: [null] },
    }
    const stored = await store(given)
    assert.deepEqual(await findSubscription(acme, stored.id), stored)
  })

  test('is changed whole, and its patterns with it', async () => {
    const stored = await store({ eventTypes: ['a.b', 'c.d'] })
    const changed: Subscription = {
      ...stored,
      name: 'new',
      enabled: false,
      verificationState: 'failed',
      origin: 'x',
      eventTypes: ['c.d', 'e.*'],
      schemaMajor: 3,
      sink: { kind: 'webhook', url: 'https://example.org/', headers: {} },
      destinationKey: 'other',
      contentMode: 'structured',
      ordering: 'parallel',
      retrySchedule: [1],
      timeoutMs: 1000,
      disabledReason: 'why',
      disabledAt: NOW,
      metadata: { a: 1 },
      version: 2,
      updatedAt: new Date(NOW.getTime() + 1),
    }
    await updateSubscription(acme, changed)
    assert.deepEqual(await findSubscription(acme, stored.id), changed)
    const { rows } = await pool.query(
      'select pattern from subscription_pattern where subscription_id = $1 order by 1',
      [stored.id],
    )
    assert.deepEqual(rows, [{ pattern: 'c.d' }, { pattern: 'e.*' }])
  })

  test('is another tenant’s for nobody else: not found, locked, listed or changed', async () => {
    const owner = tenantDatabase(pool, 'owner')
    const stranger = tenantDatabase(pool, 'stranger')
    const stored = await store({ tenantId: 'owner' })
    assert.equal(await findSubscription(stranger, stored.id), null)
    assert.equal(await lockSubscription(stranger, stored.id), null)
    const any = EVERY
    assert.deepEqual(await listSubscriptions(stranger, any), [])
    await assert.rejects(updateSubscription(stranger, { ...stored, name: 'taken over' }), /row-level security/)
    const foreign = { ...stored, tenantId: 'stranger', name: 'taken over', eventTypes: ['*'] }
    await updateSubscription(stranger, foreign).catch(() => undefined)
    await markDeleted(stranger, { id: stored.id, now: NOW })
    await renewLane(stranger, { subscriptionId: stored.id, freshStart: true })
    assert.deepEqual(await findSubscription(owner, stored.id), stored)
  })

  test('once deleted it is found by nothing, and has neither patterns nor secrets', async () => {
    const stored = await store()
    await markDeleted(acme, { id: stored.id, now: NOW })
    assert.equal(await findSubscription(acme, stored.id), null)
    assert.equal(await lockSubscription(acme, stored.id), null)
    const { rows } = await pool.query(
      `select (select count(*) from subscription_pattern where subscription_id = $1) as patterns,
        (select count(*) from subscription_secret where subscription_id = $1) as secrets,
        (select version from subscription where id = $1) as version`,
      [stored.id],
    )
    assert.deepEqual(rows, [{ patterns: 0, secrets: 0, version: 2 }])
  })

  test('that is locked makes the next one wait, who then sees what was committed', async () => {
    const stored = await store()
    const second = await tenantStore(pool)(stored, async (db) => {
      await lockSubscription(db, stored.id)
      const waiting = lockSubscription(acme, stored.id)
      await updateSubscription(db, { ...stored, name: 'first', version: 2 })
      return { waiting }
    })
    assert.equal((await second.waiting)?.name, 'first')
  })
})

describe('creations at the same time', () => {
  test('to one destination of one new tenant do not stand in each other’s way', async () => {
    const many = Array.from({ length: 16 }, async () => await store({ tenantId: 'rush', destinationKey: 'same' }))
    assert.equal((await Promise.all(many)).length, 16)
    const { rows } = await pool.query("select count(*) from destination where tenant_id = 'rush'")
    assert.deepEqual(rows, [{ count: 1 }])
  })
})

describe('the lane', () => {
  test('follows the subscription, and keeps its failure streak unless it starts afresh', async () => {
    const stored = await store()
    await pool.query('update lane set first_failure_at = $2, last_failure_at = $2 where subscription_id = $1', [
      stored.id,
      NOW,
    ])
    await updateSubscription(acme, { ...stored, destinationKey: 'moved', version: 7 })
    const lane = async (): Promise<unknown> =>
      (
        await pool.query('select version, destination_key, first_failure_at from lane where subscription_id = $1', [
          stored.id,
        ])
      ).rows[0]
    await renewLane(acme, { subscriptionId: stored.id, freshStart: false })
    assert.deepEqual(await lane(), { version: 7, destination_key: 'moved', first_failure_at: NOW })
    await renewLane(acme, { subscriptionId: stored.id, freshStart: true })
    assert.deepEqual(await lane(), { version: 7, destination_key: 'moved', first_failure_at: null })
  })
})

describe('rotating secrets', () => {
  test('touches those of its field alone', async () => {
    const stored = await store()
    await pool.query(
      `insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at) values ($1, $2, 'acme', 'token', 'other', $3)`,
      [uuid7(), stored.id, NOW],
    )
    const rotation = {
      subscriptionId: stored.id,
      field: 'signing_secret',
      sealed: 'new',
      now: NOW,
      oldOnes: 4,
    }
    await rotateSecret(acme, { ...rotation, oldUntil: new Date(NOW.getTime() + 1000) })
    const { rows } = await pool.query(
      'select field, sealed, expires_at is null as current from subscription_secret where subscription_id = $1 order by sealed',
      [stored.id],
    )
    assert.deepEqual(rows, [
      { field: 'signing_secret', sealed: 'new', current: true },
      { field: 'token', sealed: 'other', current: true },
      { field: 'signing_secret', sealed: 'sealed', current: false },
    ])
  })
})

test('no list of the control plane reads a table from end to end', async () => {
  const any = EVERY
  const ofTenants = await plansOf(
    pool,
    async (db) => {
      for (const given of [
        {},
        { before: uuid7() },
        { enabled: true },
        { origin: 'x' },
        { eventType: '*' },
        { destinationKey: 'x' },
        { name: 'x' },
        { since: NOW },
      ])
        await listSubscriptions(db, { ...any, ...given })
    },
    'acme',
  )
  const ofOperators = await plansOf(pool, async (db) => {
    await listBreakers(db, { after: null, limit: 10, state: null })
    await listBreakers(db, { after: { tenantId: 'a', destinationKey: 'b' }, limit: 10, state: 'open' })
    await listTenants(db, { after: null, limit: 10, countUpTo: 10_000 })
    await listTenants(db, { after: 'acme', limit: 10, countUpTo: 10_000 })
  })
  for (const { sequentialScans, text } of [...ofTenants, ...ofOperators]) {
    assert.deepEqual(
      sequentialScans.filter((table) => table !== 'virtual_time'),
      [],
      text,
    )
  }
})

const EVERY = {
  before: null,
  limit: 10,
  enabled: null,
  verificationState: null,
  origin: null,
  eventType: null,
  destinationKey: null,
  name: null,
  since: null,
  until: null,
}
