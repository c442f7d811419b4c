// Subscriptions, their patterns and signing secrets, as the control plane reads and changes them. Every statement compares the
// tenant itself: there is no way to reach another tenant's row by its id alone.
import type { SinkSettings, Subscription, VerificationState } from '../event/subscription.ts'
import type { Database } from './pool.ts'
import type { TenantDatabase } from './tenant.ts'

export interface NewSubscription {
  subscription: Subscription
  secret: SealedSecret
}

/** A sealed secret of a subscription; `field` says what of it. */
export interface SealedSecret {
  field: string
  sealed: string
}

/** Stores a new subscription with its patterns, its secret, its lane, and what it shares with others: destination and turn. */
export async function insertSubscription(db: TenantDatabase, { subscription, secret }: NewSubscription): Promise<void> {
  await db.query(INSERT_SUBSCRIPTION, [...columnsOf(subscription), subscription.createdAt, secret.field, secret.sealed])
}

// The lane starts held, as an unverified subscription's: the verification wakes it.
const INSERT_SUBSCRIPTION = `
with subscription_row as (
  insert into subscription (id, tenant_id, name, enabled, verification_state, origin, event_types, schema_major, sink, destination_key,
    content_mode, ordering, retry_schedule, timeout_ms, disabled_reason, disabled_at, disabled_by_owner, metadata, version, updated_at, created_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
), patterns as (
  insert into subscription_pattern (tenant_id, pattern, subscription_id) select distinct $2, p, $1::uuid from unnest($7::text[]) p
), secret as (
  insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at) values (uuid7($21), $1, $2, $22, $23, $21)
), destination_row as (
  insert into destination (tenant_id, destination_key) values ($2, $10) on conflict do nothing
), lane_row as (
  insert into lane (subscription_id, tenant_id, destination_key, version, state) values ($1, $2, $10, $19, 'held')
)
insert into tenant_turn (tenant_id) values ($2) on conflict do nothing`

/** One subscription, unless it is deleted or another tenant's. */
export async function findSubscription(db: TenantDatabase, id: string): Promise<Subscription | null> {
  const { rows } = await db.query<SubscriptionRow>(FIND_SUBSCRIPTION, [db.tenantId, id])
  return rows[0] ? subscriptionOf(rows[0]) : null
}

const FIND_SUBSCRIPTION = 'select * from subscription where tenant_id = $1 and id = $2 and deleted_at is null'

/** The same, locked until the transaction ends: before its destination, its lane and its tenant's turn. */
export async function lockSubscription(db: TenantDatabase, id: string): Promise<Subscription | null> {
  const { rows } = await db.query<SubscriptionRow>(LOCK_SUBSCRIPTION, [db.tenantId, id])
  return rows[0] ? subscriptionOf(rows[0]) : null
}

const LOCK_SUBSCRIPTION = `
select * from subscription where tenant_id = $1 and id = $2 and deleted_at is null for no key update`

export interface SubscriptionList {
  /** The id of the last one of the page before; null: the first page. */
  before: string | null
  limit: number
  /** Null: any. */
  enabled: boolean | null
  verificationState: VerificationState | null
  origin: string | null
  /** One of its patterns, as it is written. */
  eventType: string | null
  destinationKey: string | null
  /** What its name begins with. */
  name: string | null
  /** Made at or after, and before (not before 1970: they are compared with ids). */
  since: Date | null
  until: Date | null
}

/** A page of the tenant's subscriptions, the newest first. */
export async function listSubscriptions(db: TenantDatabase, list: SubscriptionList): Promise<Subscription[]> {
  const { before, limit, enabled, verificationState, origin, eventType, destinationKey, name, since, until } = list
  const wanted = [eventType, destinationKey, name, since, until]
  const values = [db.tenantId, before, limit, enabled, verificationState, origin, ...wanted]
  const { rows } = await db.query<SubscriptionRow>(LIST_SUBSCRIPTIONS, values)
  return rows.map(subscriptionOf)
}

const LIST_SUBSCRIPTIONS = `
select * from subscription
where tenant_id = $1 and deleted_at is null and ($2::uuid is null or id < $2) and ($4::boolean is null or enabled = $4)
  and ($5::text is null or verification_state = $5) and ($6::text is null or origin = $6)
  and ($7::text is null or id in (select subscription_id from subscription_pattern where tenant_id = $1 and pattern = $7))
  and ($8::text is null or destination_key = $8) and ($9::text is null or starts_with(name, $9))
  and ($10::timestamptz is null or id >= uuid7_floor($10)) and ($11::timestamptz is null or id < uuid7_floor($11))
order by id desc limit $3`

/** A subscription that may have been there at some time; `deletedAt` is null while it is there. */
export interface PastSubscription {
  subscription: Subscription
  deletedAt: Date | null
}

/** A page of the tenant's subscriptions that are there or were there at `at`, the newest first. */
export async function listPastSubscriptions(
  db: TenantDatabase,
  list: { before: string | null; limit: number; at: Date },
): Promise<PastSubscription[]> {
  const values = [db.tenantId, list.before, list.limit, list.at]
  const { rows } = await db.query<SubscriptionRow & { deleted_at: Date | null }>(LIST_PAST_SUBSCRIPTIONS, values)
  return rows.map((row) => ({ subscription: subscriptionOf(row), deletedAt: row.deleted_at }))
}

const LIST_PAST_SUBSCRIPTIONS = `
select * from subscription
where tenant_id = $1 and (deleted_at is null or deleted_at >= $4) and ($2::uuid is null or id < $2)
order by id desc limit $3`

/** Makes sure that the destination has a row: its breaker. */
export async function insertDestination(db: TenantDatabase, destinationKey: string): Promise<void> {
  await db.query(INSERT_DESTINATION, [db.tenantId, destinationKey])
}

const INSERT_DESTINATION = 'insert into destination (tenant_id, destination_key) values ($1, $2) on conflict do nothing'

/** Writes every column of a locked subscription that can change, and its patterns. */
export async function updateSubscription(db: TenantDatabase, subscription: Subscription): Promise<void> {
  await db.query(UPDATE_SUBSCRIPTION, columnsOf(subscription))
}

const UPDATE_SUBSCRIPTION = `
with updated as (
  update subscription set name = $3, enabled = $4, verification_state = $5, origin = $6, event_types = $7, schema_major = $8, sink = $9,
    destination_key = $10, content_mode = $11, ordering = $12, retry_schedule = $13, timeout_ms = $14, disabled_reason = $15,
    disabled_at = $16, disabled_by_owner = $17, metadata = $18, version = $19, updated_at = $20
  where id = $1 and tenant_id = $2
), dropped as (
  delete from subscription_pattern where subscription_id = $1 and pattern <> all($7::text[])
)
insert into subscription_pattern (tenant_id, pattern, subscription_id) select distinct $2, p, $1::uuid from unnest($7::text[]) p
on conflict do nothing`

/** Makes a locked subscription's sink have the secrets of `fields` and no others: those of `sealed` anew, the rest as they are. */
export async function saveSinkSecrets(
  db: TenantDatabase,
  save: { subscriptionId: string; fields: readonly string[]; sealed: readonly SealedSecret[]; now: Date },
): Promise<void> {
  const { subscriptionId, fields, sealed, now } = save
  const columns = [sealed.map(({ field }) => field), sealed.map((secret) => secret.sealed)]
  await db.query(SAVE_SINK_SECRETS, [subscriptionId, db.tenantId, now, fields, ...columns])
}

const SAVE_SINK_SECRETS = `
with dropped as (
  delete from subscription_secret
  where subscription_id = $1 and tenant_id = $2 and field <> 'signing_secret' and field <> all($4::text[])
)
insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at)
select uuid7($3), $1, $2, s.field, s.sealed, $3 from unnest($5::text[], $6::text[]) s(field, sealed)
on conflict (subscription_id, field) where field <> 'signing_secret'
do update set sealed = excluded.sealed, created_at = excluded.created_at`

/**
 * Marks a locked subscription as deleted: it matches nothing from here on, and its secrets are gone. Its row stays until its
 * queue is cancelled, and for the history that names it.
 */
export async function markDeleted(db: TenantDatabase, subscription: { id: string; now: Date }): Promise<void> {
  await db.query(MARK_DELETED, [subscription.id, db.tenantId, subscription.now])
}

const MARK_DELETED = `
with unmatched as (
  delete from subscription_pattern where subscription_id = $1
), forgotten as (
  delete from subscription_secret where subscription_id = $1
)
update subscription set deleted_at = $3, updated_at = $3, version = version + 1 where id = $1 and tenant_id = $2`

/**
 * Carries a change of a subscription over to its lane, in the same transaction: who holds the lane stops after the attempt in
 * the air, and the next claim sees the new settings. `freshStart` clears the failure streak. Wake the lane after it.
 */
export async function renewLane(
  db: TenantDatabase,
  renewal: { subscriptionId: string; freshStart: boolean },
): Promise<void> {
  await db.query(RENEW_LANE, [renewal.subscriptionId, renewal.freshStart])
}

const RENEW_LANE = `
update lane set version = s.version, destination_key = s.destination_key,
  first_failure_at = case when $2 then null else lane.first_failure_at end,
  last_failure_at = case when $2 then null else lane.last_failure_at end
from subscription s where s.id = $1 and lane.subscription_id = s.id`

export interface SecretRotation extends SealedSecret {
  subscriptionId: string
  now: Date
  /** When the secrets before it stop to sign. */
  oldUntil: Date
  /** How many old ones may sign at most: with more, the oldest stop now. */
  oldOnes: number
}

/** Adds a secret of `field`; those before it go on until `oldUntil` at the latest, and expired ones are removed. */
export async function rotateSecret(db: TenantDatabase, rotation: SecretRotation): Promise<void> {
  const { subscriptionId, field, sealed, now, oldUntil, oldOnes } = rotation
  await db.query(ROTATE_SECRET, [subscriptionId, db.tenantId, field, sealed, now, oldUntil, oldOnes])
}

// Under the subscription's lock, which those who rotate at one time get one after the other, whatever their clocks said before: the
// new one is later than all before it.
const ROTATE_SECRET = `
with old as materialized (
  select id, created_at, coalesce(least(expires_at, $6), $6) as until, row_number() over (order by created_at desc, id desc) as age
  from subscription_secret where subscription_id = $1 and tenant_id = $2 and field = $3
), removed as (
  delete from subscription_secret s using old where s.id = old.id and (old.until <= $5 or old.age > $7)
), ending as (
  update subscription_secret s set expires_at = old.until from old where s.id = old.id and old.until > $5 and old.age <= $7
)
insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at)
select uuid7($5), $1, $2, $3, $4, greatest($5, (select max(created_at) from old) + interval '1 microsecond')`

/** Removes secrets, of any tenant, that ended before `before`: at most `limit` of them. Answers how many. */
export async function removeExpiredSecrets(db: Database, before: Date, limit: number): Promise<number> {
  return (await db.query(REMOVE_EXPIRED_SECRETS, [before, limit])).rowCount ?? 0
}

const REMOVE_EXPIRED_SECRETS = `
delete from subscription_secret where id in (
  select id from subscription_secret where expires_at < $1 order by expires_at limit $2 for update skip locked)`

interface SubscriptionRow {
  id: string
  tenant_id: string
  name: string
  enabled: boolean
  verification_state: VerificationState
  origin: string | null
  event_types: string[]
  schema_major: number | null
  sink: SinkSettings
  destination_key: string
  content_mode: Subscription['contentMode']
  ordering: Subscription['ordering']
  retry_schedule: unknown
  timeout_ms: number
  disabled_reason: string | null
  disabled_at: Date | null
  disabled_by_owner: boolean
  metadata: Record<string, unknown>
  version: number
  created_at: Date
  updated_at: Date
}

function subscriptionOf(row: SubscriptionRow): Subscription {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    name: row.name,
    enabled: row.enabled,
    verificationState: row.verification_state,
    origin: row.origin,
    eventTypes: row.event_types,
    schemaMajor: row.schema_major,
    sink: row.sink,
    destinationKey: row.destination_key,
    contentMode: row.content_mode,
    ordering: row.ordering,
    retrySchedule: row.retry_schedule,
    timeoutMs: row.timeout_ms,
    disabledReason: row.disabled_reason,
    disabledAt: row.disabled_at,
    disabledByOwner: row.disabled_by_owner,
    metadata: row.metadata,
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** $1 to $20 of the statements that write a subscription. */
function columnsOf(s: Subscription): unknown[] {
  return [
    s.id,
    s.tenantId,
    s.name,
    s.enabled,
    s.verificationState,
    s.origin,
    s.eventTypes,
    s.schemaMajor,
    JSON.stringify(s.sink),
    s.destinationKey,
    s.contentMode,
    s.ordering,
    s.retrySchedule === null ? null : JSON.stringify(s.retrySchedule),
    s.timeoutMs,
    s.disabledReason,
    s.disabledAt,
    s.disabledByOwner,
    JSON.stringify(s.metadata),
    s.version,
    s.updatedAt,
  ]
}
