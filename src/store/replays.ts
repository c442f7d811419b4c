// Replays of a range. Which events one is about is settled when it is made: those whose first delivery (of kind 'event') was made
// in the range and was finished by then, and whose newest finished delivery has one of the states. Deliveries that a replay makes
// are of another kind and finish later, so that none can feed itself. Statements are unnamed: a plan is made for each range.
import type { Database } from './pool.ts'
import type { TenantDatabase } from './tenant.ts'

type ReplayStatus = 'running' | 'done' | 'cancelled'
export type ReplayedState = 'dead_lettered' | 'delivered'

/** Which events: of the subscription, arrived at or after `since` and before `until`. */
export interface ReplayRange {
  tenantId: string
  subscriptionId: string
  since: Date
  until: Date
  states: readonly ReplayedState[]
  /** What was not finished by then is no part of it. */
  createdAt: Date
}

export interface Replay extends ReplayRange {
  id: string
  status: ReplayStatus
  /** Events; `skipped` ones are no longer in the inbox. */
  total: number
  queued: number
  skipped: number
  /** What became of the queued ones, as far as it has been looked. */
  delivered: number
  deadLettered: number
  /** Ids of its deliveries that were unfinished then. */
  outstanding: readonly string[]
  /** The last event that was passed, in the order of arrival. */
  cursor: { at: Date; seq: number }
  /** The cursor has passed the whole range. */
  allQueued: boolean
  /** When there is something to do or to look at again; null: never. */
  nextStepAt: Date | null
  updatedAt: Date
  finishedAt: Date | null
}

/** How many events a replay of this range would deliver again. Reads the whole range: some seconds for a million. */
export async function countReplayable(db: TenantDatabase, range: ReplayRange): Promise<number> {
  const { rows } = await db.query<{ events: number }>(COUNT_REPLAYABLE, rangeColumns(range))
  return rows[0]?.events ?? 0
}

// The same events as those that NEXT_EVENTS finds one after the other: a test holds the two together.
const COUNT_REPLAYABLE = `
with finished as (
  select seq, ce_id, kind, state, finished_at from delivery_history
  where tenant_id = $1 and subscription_id = $2 and kind = 'event' and finished_at <= $6
    and id >= uuid7_floor($3) and id < uuid7_floor($4)
  union all
  select seq, ce_id, kind, state, finished_at from delivery_history
  where tenant_id = $1 and subscription_id = $2 and kind = 'replay' and finished_at <= $6 and id >= uuid7_floor($3)
), event as (
  select bool_or(kind = 'event') as arrived, (array_agg(state order by finished_at desc, seq desc))[1] as state
  from finished group by ce_id
)
select count(*)::integer as events from event where arrived and state = any($5::text[])`

/** A new replay, to be begun at once. */
export async function insertReplay(db: TenantDatabase, replay: ReplayRange & { total: number }): Promise<Replay> {
  const { rows } = await db.query<ReplayRow>(INSERT_REPLAY, [...rangeColumns(replay), replay.total])
  return replayOf(rows[0]!)
}

const INSERT_REPLAY = `
insert into replay (id, tenant_id, subscription_id, since, until, states, total, cursor_at, next_step_at, created_at, updated_at)
values (uuid7($6), $1, $2, $3, $4, $5, $7, $3, $6, $6, $6)
returning *`

/** How many of a subscription's replays are running. With the subscription locked, none is added meanwhile. */
export async function countRunning(db: TenantDatabase, subscriptionId: string): Promise<number> {
  const { rows } = await db.query<{ running: number }>(COUNT_RUNNING, [db.tenantId, subscriptionId])
  return rows[0]?.running ?? 0
}

const COUNT_RUNNING = `
select count(*)::integer as running from replay
where tenant_id = $1 and subscription_id = $2 and status = 'running' and next_step_at is not null`

/** One replay of the tenant, also of a subscription that is deleted. */
export async function findReplay(db: TenantDatabase, id: string): Promise<Replay | null> {
  const { rows } = await db.query<ReplayRow>(FIND_REPLAY, [db.tenantId, id])
  return rows[0] ? replayOf(rows[0]) : null
}

const FIND_REPLAY = 'select * from replay where tenant_id = $1 and id = $2'

export interface ReplayList {
  subscriptionId: string
  /** The id of the last one of the page before; null: the first page. */
  before: string | null
  limit: number
}

/** A page of a subscription's replays, the newest first. */
export async function listReplays(db: TenantDatabase, list: ReplayList): Promise<Replay[]> {
  const values = [db.tenantId, list.subscriptionId, list.before, list.limit]
  const { rows } = await db.query<ReplayRow>(LIST_REPLAYS, values)
  return rows.map(replayOf)
}

const LIST_REPLAYS = `
select * from replay
where tenant_id = $1 and subscription_id = $2 and ($3::uuid is null or id < $3)
order by id desc limit $4`

/** Ends a running replay; what it has queued goes its way, and is still counted. Answers it as it is then, or null when there is none. */
export async function cancelReplay(db: TenantDatabase, replay: { id: string; now: Date }): Promise<Replay | null> {
  await db.query(CANCEL_REPLAY, [db.tenantId, replay.id, replay.now])
  return await findReplay(db, replay.id)
}

const CANCEL_REPLAY = `
update replay set status = 'cancelled', finished_at = $3, updated_at = $3,
  next_step_at = case when outstanding = '{}' then null else next_step_at end
where tenant_id = $1 and id = $2 and status = 'running'`

/** A replay whose turn it is, with what decides about its next step. */
export interface TakenReplay {
  replay: Replay
  /** Whether its subscription is deleted, or could be sent anything now. */
  deleted: boolean
  deliverable: boolean
  /** Of the subscription's other replays: one that was made before still has events to queue; how many are unfinished of all. */
  behind: boolean
  outstandingOfOthers: number
}

/** Locks the replay that has waited longest for its next step, unless another replica has it; null when none is due. */
export async function takeReplay(db: Database, now: Date): Promise<TakenReplay | null> {
  const { rows } = await db.query<ReplayRow & TakenRow>(TAKE_REPLAY, [now])
  const [row] = rows
  if (!row) return null
  const { deleted, deliverable, behind, outstanding_of_others: outstandingOfOthers } = row
  return { replay: replayOf(row), deleted, deliverable, behind, outstandingOfOthers }
}

// One snapshot shows of the others both whether they still queue and what they have queued, and of a subscription's replays only
// the first one that still queues goes on: so two replicas never fill the line together.
const TAKE_REPLAY = `
select r.*, s.deleted_at is not null as deleted, s.enabled and s.verification_state = 'active' as deliverable,
  other.behind, other.outstanding as outstanding_of_others
from replay r
join subscription s on s.id = r.subscription_id
cross join lateral (
  select coalesce(bool_or(o.status = 'running' and not o.all_queued and o.id < r.id), false) as behind,
    coalesce(sum(cardinality(o.outstanding)), 0)::integer as outstanding
  from replay o where o.subscription_id = r.subscription_id and o.id <> r.id and o.next_step_at is not null
) other
where r.next_step_at <= $1
order by r.next_step_at, r.id limit 1 for no key update of r skip locked`

/** What has become of deliveries: null of the unfinished ones, 'gone' where the history has already been dropped. */
export async function statesOf(
  db: Database,
  deliveryIds: readonly string[],
): Promise<Map<string, ReplayedState | 'gone' | null>> {
  const { rows } = await db.query<{ id: string; state: ReplayedState | 'gone' | null }>(STATES_OF, [deliveryIds])
  return new Map(rows.map(({ id, state }) => [id, state]))
}

const STATES_OF = `
select o.id, case when d.id is null then coalesce(h.state, 'gone') end as state
from unnest($1::uuid[]) o(id)
left join delivery d on d.id = o.id
left join delivery_history h on h.id = o.id`

/** An event of the range behind the cursor. */
export interface NextEvent {
  eventId: string
  /** Its newest finished delivery. */
  deliveryId: string
  at: Date
  seq: number
  /** That one's state is among the replay's. */
  wanted: boolean
  /** Its payload is still in the inbox. */
  kept: boolean
}

/**
 * The next events behind a replay's cursor, wanted or not, in the order of arrival: `limit` of them and what arrived in the same
 * millisecond as the last one. None: the range is at its end.
 */
export async function nextEvents(db: Database, replay: Replay, limit: number): Promise<NextEvent[]> {
  const { cursor } = replay
  const { rows } = await db.query<NextEvent>(NEXT_EVENTS, [...rangeColumns(replay), cursor.at, cursor.seq, limit])
  return rows
}

// Ids carry the millisecond of arrival and are random within it; seq has the order there. So whole milliseconds are read by id,
// and put in order. An event that was forgotten and arrived once more has a second first delivery: the last one stands for it.
const NEXT_EVENTS = `
with horizon as materialized (
  select max(created_at) as at from (
    select created_at from delivery_history
    where tenant_id = $1 and subscription_id = $2 and kind = 'event' and finished_at <= $6
      and id >= uuid7_floor($7::timestamptz + interval '1 ms') and id < uuid7_floor($4)
    order by id limit $9
  ) ahead
)
select h.ce_id as "eventId", newest.id as "deliveryId", h.created_at as at, h.seq,
  newest.state = any($5::text[]) and arrival.id = h.id as wanted, e.ce_id is not null as kept
from horizon
cross join lateral (
  select id, ce_id, created_at, seq from delivery_history
  where tenant_id = $1 and subscription_id = $2 and kind = 'event' and finished_at <= $6
    and id >= uuid7_floor($7) and id < uuid7_floor($4)
    and id < uuid7_floor(greatest(horizon.at, $7) + interval '1 ms') and (created_at, seq) > ($7, $8::bigint)
) h
cross join lateral (
  select id, state from delivery_history
  where ce_id = h.ce_id and tenant_id = $1 and subscription_id = $2 and finished_at <= $6 and id >= uuid7_floor($3)
    and (kind = 'replay' or kind = 'event' and id < uuid7_floor($4))
  order by finished_at desc, seq desc limit 1
) newest
cross join lateral (
  select id from delivery_history
  where ce_id = h.ce_id and tenant_id = $1 and subscription_id = $2 and finished_at <= $6
    and kind = 'event' and id >= uuid7_floor($3) and id < uuid7_floor($4)
  order by created_at desc, seq desc limit 1
) arrival
left join event_inbox e on e.tenant_id = $1 and e.ce_id = h.ce_id
order by h.created_at, h.seq`

/** Queues events once more, in their order; answers their deliveries' ids. Wake the lane after it. */
export async function queueReplayed(
  db: Database,
  replay: Replay,
  { events, now }: { events: readonly NextEvent[]; now: Date },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(QUEUE_REPLAYED, [
    now,
    replay.tenantId,
    replay.subscriptionId,
    replay.id,
    events.map(({ eventId }) => eventId),
    events.map(({ deliveryId }) => deliveryId),
  ])
  return rows.map(({ id }) => id)
}

const QUEUE_REPLAYED = `
insert into delivery (id, tenant_id, subscription_id, ce_id, kind, replay_of, replay_id, due_at, created_at)
select uuid7($1), $2, $3, ce_id, 'replay', delivery_id, $4, $1, $1
from unnest($5::uuid[], $6::uuid[]) with ordinality e(ce_id, delivery_id, place) order by place
returning id`

/** Writes how far a replay has come, with its row locked by `takeReplay`. */
export async function saveReplay(db: Database, replay: Replay): Promise<void> {
  await db.query(SAVE_REPLAY, [
    replay.id,
    replay.status,
    replay.total,
    replay.queued,
    replay.skipped,
    replay.delivered,
    replay.deadLettered,
    replay.outstanding,
    replay.cursor.at,
    replay.cursor.seq,
    replay.allQueued,
    replay.nextStepAt,
    replay.updatedAt,
    replay.finishedAt,
  ])
}

const SAVE_REPLAY = `
update replay set status = $2, total = $3, queued = $4, skipped = $5, delivered = $6, dead_lettered = $7, outstanding = $8,
  cursor_at = $9, cursor_seq = $10, all_queued = $11, next_step_at = $12, updated_at = $13, finished_at = $14
where id = $1`

/** $1 to $6. */
function rangeColumns({ tenantId, subscriptionId, since, until, states, createdAt }: ReplayRange): unknown[] {
  return [tenantId, subscriptionId, since, until, states, createdAt]
}

interface TakenRow {
  deleted: boolean
  deliverable: boolean
  behind: boolean
  outstanding_of_others: number
}

interface ReplayRow {
  id: string
  tenant_id: string
  subscription_id: string
  since: Date
  until: Date
  states: ReplayedState[]
  status: ReplayStatus
  total: number
  queued: number
  skipped: number
  delivered: number
  dead_lettered: number
  outstanding: string[]
  cursor_at: Date
  cursor_seq: number
  all_queued: boolean
  next_step_at: Date | null
  created_at: Date
  updated_at: Date
  finished_at: Date | null
}

function replayOf(row: ReplayRow): Replay {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    subscriptionId: row.subscription_id,
    since: row.since,
    until: row.until,
    states: row.states,
    status: row.status,
    total: row.total,
    queued: row.queued,
    skipped: row.skipped,
    delivered: row.delivered,
    deadLettered: row.dead_lettered,
    outstanding: row.outstanding,
    cursor: { at: row.cursor_at, seq: row.cursor_seq },
    allQueued: row.all_queued,
    nextStepAt: row.next_step_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    finishedAt: row.finished_at,
  }
}
