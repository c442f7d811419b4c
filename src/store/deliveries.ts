// Deliveries and their attempts as the control plane reads them, and the retry by hand. A delivery is in `delivery` until it is
// finished and in `delivery_history` from then on; one statement reads both, so that one that moves meanwhile is seen exactly
// once. Statements are unnamed on purpose: their filters are values, and a plan is made for the values that there are.
import type { Database } from './pool.ts'
import type { TenantDatabase } from './tenant.ts'

type DeliveryState = 'queued' | 'retrying' | 'delivered' | 'dead_lettered'
type DeadLetterReason = 'exhausted' | 'poisoned' | 'cancelled'

export interface Delivery {
  id: string
  tenantId: string
  subscriptionId: string
  eventId: string
  kind: 'event' | 'replay' | 'test'
  /** The finished delivery that it repeats, and the replay of a range that made it (null: a retry by hand). */
  replayOf: string | null
  replayId: string | null
  state: DeliveryState
  reason: DeadLetterReason | null
  attempts: number
  /** Of an unfinished one. */
  nextAttemptAt: Date | null
  createdAt: Date
  finishedAt: Date | null
  lastStatus: number | null
  lastError: string | null
}

// Both tables as one, in the columns of `DeliveryRow`.
const UNFINISHED = `id, tenant_id, subscription_id, ce_id, kind, replay_of, replay_id,
  case when attempts = 0 then 'queued' else 'retrying' end as state, null as reason, attempts, due_at as next_attempt_at, created_at, null::timestamptz as finished_at, last_status, last_error`
const FINISHED = `id, tenant_id, subscription_id, ce_id, kind, replay_of, replay_id, state, reason, attempts,
  null::timestamptz as next_attempt_at, created_at, finished_at, last_status, last_error`

/** One delivery of the tenant, finished or not. */
export async function findDelivery(db: TenantDatabase, id: string): Promise<Delivery | null> {
  const { rows } = await db.query<DeliveryRow>(FIND_DELIVERY, [db.tenantId, id])
  return rows[0] ? deliveryOf(rows[0]) : null
}

const FIND_DELIVERY = `
select ${UNFINISHED} from delivery where tenant_id = $1 and id = $2
union all
select ${FINISHED} from delivery_history where tenant_id = $1 and id = $2
union all
select id, tenant_id, subscription_id, event_id, 'test', null, null, 'queued', null, 0, created_at, created_at, null, null, null
from test_delivery where tenant_id = $1 and id = $2`

export interface DeliveryList {
  subscriptionId: string
  /** The id of the last one of the page before; null: the first page. */
  before: string | null
  limit: number
  /** Null: any; as all that follow. */
  state: DeliveryState | null
  /** Made at or after, and before (not before 1970: they are compared with ids). */
  since: Date | null
  until: Date | null
  eventId: string | null
  kind: Delivery['kind'] | null
  reason: DeadLetterReason | null
  lastStatus: number | null
  /** As the event has it that is still in the inbox. */
  eventType: string | null
}

export interface DeliveryPage {
  /** One more than `limit` where there is more. */
  found: Delivery[]
  /** Where the look for rare ones has ended early: the last id that was looked at. */
  lookedTo: string | null
}

/** Of what no index leads to, so many deliveries are looked at for one page. */
const LOOK_AT = 2000

/** A page of a subscription's deliveries, the newest first. What is rare is looked for in a bounded part of them. */
export async function listDeliveries(db: TenantDatabase, list: DeliveryList): Promise<DeliveryPage> {
  const { subscriptionId, before, limit, since, until, eventId, kind, reason, lastStatus, eventType } = list
  const state = list.state ?? (reason && 'dead_lettered')
  const wide = [kind, reason, lastStatus, eventType].some((filter) => filter !== null)
  const lookAt = wide || state === 'delivered' || state === 'queued' ? Math.max(LOOK_AT, limit + 1) : limit + 1
  const given = [db.tenantId, subscriptionId, before, limit + 1, state, since, until, eventId]
  const values = [...given, kind, reason, lastStatus, eventType, lookAt]
  const { rows } = await db.query<Partial<DeliveryRow> & Looked>(LIST_DELIVERIES, values)
  const found = rows.flatMap((row) => (isDelivery(row) ? [deliveryOf(row)] : []))
  const endedEarly = found.length <= limit && rows[0]?.looked === lookAt
  return { found, lookedTo: endedEarly ? (rows[0]?.looked_to ?? null) : null }
}

interface Looked {
  looked: number
  looked_to: string | null
}

function isDelivery(row: Partial<DeliveryRow>): row is DeliveryRow {
  return typeof row.id === 'string'
}

// `page` are the newest ones that an index leads to, of either table no more than are looked at; what else is asked for is picked out of
// them. `state` is asked in there where it is rare and has an index.
const LIST_DELIVERIES = `
with page as materialized (
  (select ${UNFINISHED} from delivery
  where tenant_id = $1 and subscription_id = $2 and ($3::uuid is null or id < $3)
    and ($5::text is null or $5 in ('queued', 'retrying')) and ($5 is distinct from 'retrying' or attempts > 0)
    and ($6::timestamptz is null or id >= uuid7_floor($6)) and ($7::timestamptz is null or id < uuid7_floor($7))
    and ($8::uuid is null or ce_id = $8)
  order by id desc limit $13)
  union all
  (select ${FINISHED} from delivery_history
  where tenant_id = $1 and subscription_id = $2 and ($3::uuid is null or id < $3)
    and ($5::text is null or $5 in ('delivered', 'dead_lettered')) and ($5 is distinct from 'dead_lettered' or state = 'dead_lettered')
    and ($6::timestamptz is null or id >= uuid7_floor($6)) and ($7::timestamptz is null or id < uuid7_floor($7))
    and ($8::uuid is null or ce_id = $8)
  order by id desc limit $13)
  order by id desc limit $13
)
select l.looked, l.looked_to, p.*
from (select count(*)::integer as looked, (select id from page order by id limit 1) as looked_to from page) l
left join lateral (
  select * from page
  where ($5::text is null or state = $5) and ($9::text is null or kind = $9) and ($10::text is null or reason = $10)
    and ($11::integer is null or last_status = $11)
    and ($12::text is null or (select event_key from event_inbox e where e.tenant_id = $1 and e.ce_id = page.ce_id) = $12)
  order by id desc limit $4
) p on true
order by p.id desc`

/** The first `limit` deliveries of the tenant's event, in the order in which they were made. */
export async function listEventDeliveries(
  db: TenantDatabase,
  event: { id: string; receivedAt: Date; limit: number },
): Promise<Delivery[]> {
  const values = [db.tenantId, event.id, laterThan(event.receivedAt), event.limit]
  const { rows } = await db.query<DeliveryRow>(LIST_EVENT_DELIVERIES, values)
  return rows.map(deliveryOf)
}

const LIST_EVENT_DELIVERIES = `
select ${UNFINISHED} from delivery where tenant_id = $1 and ce_id = $2
union all
select ${FINISHED} from delivery_history where tenant_id = $1 and ce_id = $2 and id >= uuid7_floor($3)
order by id limit $4`

export interface DeadLetterList {
  before: string | null
  limit: number
  /** Null: any. */
  tenantId: string | null
  subscriptionId: string | null
  reason: DeadLetterReason | null
  /** Made at or after, and before (not before 1970); null: no bound. */
  since: Date | null
  until: Date | null
}

/** For operators: a page of all tenants' dead letters, the newest delivery first. A test that failed is none. */
export async function listDeadLetters(db: Database, list: DeadLetterList): Promise<Delivery[]> {
  const { before, limit, tenantId, subscriptionId, reason, since, until } = list
  const values = [before, limit, tenantId, subscriptionId, reason, since, until]
  const { rows } = await db.query<DeliveryRow>(LIST_DEAD_LETTERS, values)
  return rows.map(deliveryOf)
}

const LIST_DEAD_LETTERS = `
select ${FINISHED} from delivery_history
where state = 'dead_lettered' and reason is not null and kind <> 'test' and ($1::uuid is null or id < $1) and ($3::text is null or tenant_id = $3)
  and ($4::uuid is null or subscription_id = $4) and ($5::text is null or reason = $5)
  and ($6::timestamptz is null or id >= uuid7_floor($6)) and ($7::timestamptz is null or id < uuid7_floor($7))
order by id desc limit $2`

export interface Attempt {
  /** The `x-lerian-delivery-id` that it went out with. */
  id: string
  number: number
  startedAt: Date
  /** Null when no outcome was written. */
  durationMs: number | null
  outcome: 'delivered' | 'failed' | 'outcome_unknown'
  status: number | null
  errorClass: string | null
  errorDetail: string | null
  /** The answer's first bytes. */
  response: Buffer | null
}

/** The attempts of a delivery that `findDelivery` found, in their order: `limit` of them behind the one of number and id `after`. */
export async function listAttempts(
  db: TenantDatabase,
  delivery: Delivery,
  page: { after: { number: number; id: string } | null; limit: number },
): Promise<Attempt[]> {
  const after = [page.after?.number ?? null, page.after?.id ?? null]
  const values = [db.tenantId, delivery.id, laterThan(delivery.createdAt), ...after, page.limit]
  const { rows } = await db.query<Attempt>(LIST_ATTEMPTS, values)
  return rows
}

const LIST_ATTEMPTS = `
select id, number, started_at as "startedAt", duration_ms as "durationMs", outcome, status, error_class as "errorClass",
  error_detail as "errorDetail", response
from attempt
where tenant_id = $1 and delivery_id = $2 and id >= uuid7_floor($3) and ($4::integer is null or (number, id) > ($4, $5::uuid))
order by number, id limit $6`

/** The first unfinished delivery of an event to a subscription: it is on its way. With the lane locked, none is added by hand meanwhile. */
export async function findUnfinished(
  db: TenantDatabase,
  { subscriptionId, eventId }: Pick<Delivery, 'subscriptionId' | 'eventId'>,
): Promise<Delivery | null> {
  const { rows } = await db.query<DeliveryRow>(FIND_UNFINISHED, [db.tenantId, subscriptionId, eventId])
  return rows[0] ? deliveryOf(rows[0]) : null
}

const FIND_UNFINISHED = `
select ${UNFINISHED} from delivery where tenant_id = $1 and subscription_id = $2 and ce_id = $3 order by seq limit 1`

/** Makes an unfinished delivery due now. Answers whether it is still unfinished. Its lane is locked before it. */
export async function hastenDelivery(db: TenantDatabase, delivery: { id: string; now: Date }): Promise<boolean> {
  const { rowCount } = await db.query(HASTEN_DELIVERY, [db.tenantId, delivery.id, delivery.now])
  return rowCount === 1
}

const HASTEN_DELIVERY = 'update delivery set due_at = least(due_at, $3) where tenant_id = $1 and id = $2'

/**
 * Queues a finished delivery's event for its subscription once more. Answers the new delivery, or null when the event is no
 * longer in the inbox or the subscription is deleted.
 */
export async function replayDelivery(
  db: TenantDatabase,
  finished: { id: string; now: Date },
): Promise<Delivery | null> {
  const { rows } = await db.query<DeliveryRow>(REPLAY_DELIVERY, [db.tenantId, finished.id, finished.now])
  return rows[0] ? deliveryOf(rows[0]) : null
}

const REPLAY_DELIVERY = `
insert into delivery (id, tenant_id, subscription_id, ce_id, kind, replay_of, due_at, created_at)
select uuid7($3), h.tenant_id, h.subscription_id, h.ce_id, 'replay', h.id, $3, $3
from delivery_history h
join event_inbox e on e.tenant_id = h.tenant_id and e.ce_id = h.ce_id
join subscription s on s.id = h.subscription_id and s.deleted_at is null
where h.tenant_id = $1 and h.id = $2
returning ${UNFINISHED}`

const CLOCKS_DIFFER_MS = 3_600_000

/** No attempt is older than its delivery, no delivery older than its event: partitions before are not opened. Replicas' clocks may differ. */
function laterThan(origin: Date): Date {
  return new Date(Math.max(0, origin.getTime() - CLOCKS_DIFFER_MS))
}

interface DeliveryRow {
  id: string
  tenant_id: string
  subscription_id: string
  ce_id: string
  kind: Delivery['kind']
  replay_of: string | null
  replay_id: string | null
  state: DeliveryState
  reason: DeadLetterReason | null
  attempts: number
  next_attempt_at: Date | null
  created_at: Date
  finished_at: Date | null
  last_status: number | null
  last_error: string | null
}

function deliveryOf(row: DeliveryRow): Delivery {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    subscriptionId: row.subscription_id,
    eventId: row.ce_id,
    kind: row.kind,
    replayOf: row.replay_of,
    replayId: row.replay_id,
    state: row.state,
    reason: row.reason,
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
    lastStatus: row.last_status,
    lastError: row.last_error,
  }
}
