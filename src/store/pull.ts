// Reading the inbox in arrival order: by (xid, seq), below the oldest transaction that still runs (see migrations/0014_pull.sql). What is
// read once behind a position is read there again, and nothing ever appears before it. Ids of transactions are text here: they are 64 bits.
import type { Database } from './pool.ts'
import { storedEventOf, type EventRow, type StoredEvent } from './events.ts'
import type { TenantDatabase } from './tenant.ts'

/** A place between two events of the inbox. */
export interface Position {
  xid: string
  seq: string
}

export const BEGINNING: Position = { xid: '0', seq: '0' }

export interface PullQuery {
  after: Position
  /** Events that are given at most. */
  limit: number
  /** Null: of any producer. */
  origin: string | null
  /** Patterns as subscriptions have them; null: of any type. */
  eventTypes: readonly string[] | null
}

interface PulledEvent extends StoredEvent {
  bytes: number
}

export interface Pulled {
  events: PulledEvent[]
  /** Behind what was looked at: further on than the last event, where others lay behind it that were not asked for. */
  next: Position
  /** There was more to look at. */
  more: boolean
  /** How far reading could go: whoever waits for more waits for what is not below it. */
  horizon: string
  /** `after` is beyond all that this database has ever known. */
  isAhead: boolean
}

/** What one call looks at, whatever it finds: a few milliseconds. */
const MOST_SCANNED = 2_000
/** Of data and attributes in one answer, unless it is a single event. */
const MOST_BYTES = 4 << 20

/** The next events of the tenant behind a position. */
export async function pullEvents(db: TenantDatabase, query: PullQuery): Promise<Pulled> {
  const { after, limit, origin, eventTypes } = query
  const everything = origin === null && eventTypes === null
  const { rows } = await db.query<PulledRow>({
    name: 'pull_events',
    text: PULL_EVENTS,
    values: [
      db.tenantId,
      after.xid,
      after.seq,
      everything ? limit : MOST_SCANNED,
      origin,
      eventTypes,
      limit,
      MOST_BYTES,
    ],
  })
  const { next_xid: xid, next_seq: seq, more, horizon, is_ahead: isAhead } = rows[0]!
  const events = rows.filter(({ ce_id }) => ce_id !== null).map((row) => ({ ...storedEventOf(row), bytes: row.bytes }))
  return { events, next: { xid, seq }, more, horizon, isAhead }
}

interface PulledRow extends EventRow {
  next_xid: string
  next_seq: string
  more: boolean
  horizon: string
  is_ahead: boolean
  bytes: number
}

// A page is what comes first of what was scanned, up to where it is full: what comes later on never changes it. What is not asked for
// is passed over without its data.
const PULL_EVENTS = `
with scanned as materialized (
  select s.*, row_number() over (order by xid, seq) as place, case when wanted then data_bytes + octet_length(attributes::text) else 0 end as bytes
  from (
    select xid, seq, tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, traceparent, tracestate, data_bytes,
      wanted, case when wanted then attributes end as attributes, case when wanted then data end as data
    from event_inbox cross join lateral (select ($5::text is null or source = $5)
      and ($6::text[] is null or event_key = any($6) or resource_type || '.*' = any($6) or '*' = any($6)) as wanted) w
    where tenant_id = $1 and (xid, seq) > ($2::xid8, $3::bigint) and xid < inbox_horizon()
    order by xid, seq limit $4 + 1
  ) s
), counted as (
  select *, count(*) filter (where wanted) over before as nth, sum(bytes) over before as sum_bytes
  from scanned window before as (order by place rows unbounded preceding)
), page as materialized (
  select * from counted where place <= $4 and nth <= $7 and (sum_bytes <= $8 or nth <= 1)
), last as (
  select xid, seq, place from page order by place desc limit 1
)
select coalesce((select xid from last), $2::xid8)::text as next_xid, coalesce((select seq from last), $3::bigint)::text as next_seq,
  (select place from scanned where place > coalesce((select place from last), 0) order by place limit 1) is not null as more,
  inbox_horizon()::text as horizon, $2::xid8 > inbox_horizon() as is_ahead,
  e.tenant_id, e.ce_id, e.received_at, e.source, e.resource_type, e.event_key, e.schema_major, e.attributes, e.traceparent, e.tracestate,
  e.data, e.bytes
from (select 1) once left join page e on e.wanted order by e.place`

/** Where what is written from now on begins: nothing of it is before, and little of what is there already is behind. */
export async function inboxHorizon(db: Database): Promise<string> {
  const { rows } = await db.query<{ horizon: string }>('select inbox_horizon()::text as horizon')
  return rows[0]!.horizon
}

export interface Arrivals {
  /** Null: too many to be named. */
  tenants: string[] | null
  /** What is below it has been looked at. */
  horizon: string
  /** Transactions are under way, so something may become readable without anybody saying so. */
  pending: boolean
}

/** Whose events have become readable since the horizon was at `since`. */
export async function findArrivals(db: Database, since: string): Promise<Arrivals> {
  const { rows } = await db.query<Arrivals & { looked: number }>({
    name: 'find_arrivals',
    text: FIND_ARRIVALS,
    values: [since, MOST_ARRIVALS],
  })
  const { looked, tenants, horizon, pending } = rows[0]!
  return { tenants: looked < MOST_ARRIVALS ? tenants : null, horizon, pending }
}

const MOST_ARRIVALS = 1_000

const FIND_ARRIVALS = `
with arrived as materialized (
  select tenant_id from event_inbox where xid >= $1::xid8 and xid < inbox_horizon() order by xid, seq limit $2)
select array(select distinct tenant_id from arrived) as tenants, (select count(*) from arrived)::integer as looked,
  inbox_horizon()::text as horizon, pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax(pg_current_snapshot()) as pending`

/** Takes up a database that was restored, so that no reader misses what is written from now on; answers whether it was one. */
export async function alignInbox(db: Database): Promise<boolean> {
  const { rows } = await db.query<{ aligned: boolean }>('select align_inbox() as aligned')
  return rows[0]?.aligned ?? false
}

/** Whether the inbox holds ids of transactions that this server has not given out yet. */
export async function isInboxAhead(db: Database): Promise<boolean> {
  const { rows } = await db.query<{ ahead: boolean }>(IS_INBOX_AHEAD)
  return rows[0]?.ahead ?? false
}

const IS_INBOX_AHEAD = `
select coalesce((select xid from event_inbox order by xid desc, seq desc limit 1) >= inbox_xid(pg_snapshot_xmax(pg_current_snapshot())), false)
  as ahead`
