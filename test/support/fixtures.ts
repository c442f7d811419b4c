// What tests of the store and of dispatch start from: subscriptions and events put straight into the database.
import { randomUUID } from 'node:crypto'
import type { Event } from '../../src/event/event.ts'
import type { Ordering, VerificationState } from '../../src/event/subscription.ts'
import { storeEvents } from '../../src/store/inbox.ts'
import type { Stored } from '../../src/store/inbox.ts'
import type { Database } from '../../src/store/pool.ts'

/** A UUIDv7 of `at`, epoch ms. */
export function uuid7(at: number = Date.now()): string {
  const time = at.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

export interface SubscriptionFixture {
  id: string
  tenantId: string
  enabled: boolean
  verificationState: VerificationState
  origin: string | null
  eventTypes: string[]
  schemaMajor: number | null
  destinationKey: string
  ordering: Ordering
  retrySchedule: unknown
  timeoutMs: number
}

let subscriptions = 0

/** An active subscription of tenant `acme` to everything, with its lane, destination and tenant's turn. */
export async function insertSubscription(
  db: Database,
  given: Partial<SubscriptionFixture> = {},
): Promise<SubscriptionFixture> {
  const fixture: SubscriptionFixture = {
    id: uuid7(),
    tenantId: 'acme',
    enabled: true,
    verificationState: 'active',
    origin: null,
    eventTypes: ['*'],
    schemaMajor: null,
    destinationKey: `destination-${++subscriptions}`,
    ordering: 'fifo',
    retrySchedule: null,
    timeoutMs: 30_000,
    ...given,
  }
  await db.query(INSERT, [
    fixture.id,
    fixture.tenantId,
    fixture.enabled,
    fixture.verificationState,
    fixture.origin,
    fixture.eventTypes,
    fixture.schemaMajor,
    fixture.destinationKey,
    fixture.ordering,
    JSON.stringify(fixture.retrySchedule),
    fixture.timeoutMs,
  ])
  return fixture
}

const INSERT = `
with made as (
  insert into subscription (id, tenant_id, name, enabled, verification_state, origin, event_types, schema_major, sink, destination_key,
    content_mode, ordering, retry_schedule, timeout_ms, metadata, created_at, updated_at)
  values ($1, $2, 'test', $3, $4, $5, $6, $7, '{"kind":"webhook","url":"https://example.com/","headers":{}}', $8, 'binary', $9,
    nullif($10, 'null')::json, $11, '{}', now(), now())
), patterns as (
  insert into subscription_pattern select distinct $2, pattern, $1::uuid from unnest($6::text[]) pattern
), tenant as (
  insert into tenant_turn (tenant_id) values ($2) on conflict do nothing
), destination as (
  insert into destination (tenant_id, destination_key) values ($2, $8) on conflict do nothing
)
insert into lane (subscription_id, tenant_id, destination_key) values ($1, $2, $8)`

/** An event of tenant `acme` from `lender`. */
export function anEvent(given: Partial<Event> = {}): Event {
  const id = given.id ?? uuid7()
  const [source, resourceType, eventType] = [given.source ?? 'lender', given.resourceType ?? 'loan', 'approved']
  return {
    tenantId: 'acme',
    id,
    source,
    resourceType,
    key: `${resourceType}.${eventType}`,
    schemaMajor: 1,
    attributes: { specversion: '1.0', id, source, type: `studio.lerian.${source}.${resourceType}.${eventType}` },
    traceparent: null,
    tracestate: null,
    data: Buffer.from('{"ok":true}'),
    ...given,
  }
}

/** Stores events as one batch of a partition. */
export async function arrive(db: Database, events: readonly Event[], now: Date): Promise<Stored> {
  const arrived = events.map((event, at) => ({
    event,
    record: {
      topic: 'lerian.streaming.lender',
      position: { partition: 0, offset: BigInt(at) },
      timestamp: now.getTime(),
    },
  }))
  return await storeEvents(db, arrived, now)
}
