// The lane ring: which queue a worker takes next, and how queues get back into the ring. See the lane table for the states.
import type { Event } from '../event/event.ts'
import type { Ordering } from '../event/subscription.ts'
import { COUNT_OUTCOMES } from './outcome-hours.ts'
import type { Database } from './pool.ts'

/** One delivery of a claimed lane, with all that an attempt needs of the event. */
export interface ClaimedJob {
  deliveryId: string
  /** The id that its attempt goes out with. */
  attemptId: string
  /** A replay delivers again what may be old. */
  kind: 'event' | 'replay' | 'test'
  attempts: number
  failures: number
  /** It has stepped out of the line before. */
  aside: boolean
  event: Event
  /** Epoch ms: the record's own time, or when it reached the hub where the producer gave none. */
  eventTime: number
}

export interface ClaimedLane {
  subscriptionId: string
  tenantId: string
  destinationKey: string
  version: number
  token: number
  wakeGen: number
  ordering: Ordering
  timeoutMs: number
  retrySchedule: unknown
  /** Only one job at a time is run of all solo lanes of a process. */
  solo: boolean
  /** This turn is the one probe that the destination's half-open breaker lets through. */
  probe: boolean
  /** In the order to be run; the first (all of a parallel lane's) are already marked as in the air. */
  jobs: ClaimedJob[]
}

export interface ClaimRequest {
  now: Date
  lanes: number
  soloLanes: number
  /** At most so many jobs a lane. */
  jobs: number
  /** Of a lane's jobs only the first may go beyond so many bytes of data. */
  laneBytes: number
  /** Tenants that have all the attempts in the air that one tenant may have. */
  cappedTenants: readonly string[]
  /** A lease lasts its subscription's time-out and so many ms more. */
  leaseMarginMs: number
}

export interface Claim {
  lanes: ClaimedLane[]
  /** Lanes shed: their destination's breaker is open. */
  shed: number
  /** Lanes held: their subscription is disabled, unverified or deleted. */
  held: number
}

/** Leases the next lanes of the ring, in turn, with their next jobs. Never waits for a lane that somebody else has locked. */
export async function claimLanes(db: Database, request: ClaimRequest): Promise<Claim> {
  const { rows } = await db.query<ClaimRow>({
    name: 'claim_lanes',
    text: CLAIM_LANES,
    values: [
      request.now,
      request.lanes,
      request.soloLanes,
      request.jobs,
      request.laneBytes,
      request.cappedTenants,
      request.leaseMarginMs,
    ],
  })
  const lanes = new Map<string, ClaimedLane>()
  for (const row of rows) {
    if (row.subscription_id === null) continue // nothing was claimed: the row of the counts alone
    const lane = lanes.get(row.subscription_id) ?? laneOf(row, row.subscription_id)
    lanes.set(row.subscription_id, lane)
    if (row.delivery_id !== null) lane.jobs.push(jobOf(row, row.delivery_id))
  }
  return { lanes: [...lanes.values()], shed: rows[0]?.shed ?? 0, held: rows[0]?.held ?? 0 }
}

// `seen` is what the statement's snapshot has of a lane whose row is locked at its newest version. Where the two differ, the lane
// was claimed and released or edited meanwhile, and what the snapshot says of its jobs and its subscription is stale: such a lane
// is left in the ring. Only the head of a line may have to wait; those behind it go when it has gone. A destination whose
// cool-down is over is locked with skip locked: one probe, whatever the number of replicas. A lane in which nothing is due is
// leased whatever its breaker says: it sends nothing, and its release finds out what it waits for.
const CLAIM_LANES = `
with ring as materialized (
  select subscription_id, tenant_id, destination_key, turn, lease_token, wake_gen, version, solo from lane
  where state = 'ready' and not solo and tenant_id <> all($6::text[]) order by turn, subscription_id limit $2 for no key update skip locked
), ring_solo as materialized (
  select subscription_id, tenant_id, destination_key, turn, lease_token, wake_gen, version, solo from lane
  where state = 'ready' and solo and tenant_id <> all($6::text[]) order by turn, subscription_id limit $3 for no key update skip locked
), taken as materialized (
  select * from ring union all select * from ring_solo
), moved_clock as materialized (
  select setval('virtual_time', greatest(v.last_value, (select max(turn) from taken))) from virtual_time v where exists (select from taken)
), candidate as materialized (
  select t.*, s.enabled and s.verification_state = 'active' and s.deleted_at is null as deliverable, s.ordering, s.timeout_ms,
    s.retry_schedule, coalesce(d.state, 'closed') as breaker, d.blocked_until,
    coalesce(head.due_at <= $1, false) as head_due, coalesce(head.due_at <= $1, false) or coalesce(retry.due_at <= $1, false) as runnable
  from taken t
  join lane seen on seen.subscription_id = t.subscription_id and seen.lease_token = t.lease_token and seen.version = t.version
  join subscription s on s.id = t.subscription_id and s.version = t.version
  left join destination d on d.tenant_id = t.tenant_id and d.destination_key = t.destination_key
  left join lateral (select due_at from delivery where subscription_id = t.subscription_id and not aside order by seq limit 1) head on true
  left join lateral (select due_at from delivery where subscription_id = t.subscription_id and aside order by due_at limit 1) retry on true
  where (select count(*) from moved_clock) >= 0
), cooled as materialized (
  select d.tenant_id, d.destination_key from destination d
  where d.state <> 'closed' and d.blocked_until <= $1 and (d.tenant_id, d.destination_key) in (
    select tenant_id, destination_key from candidate where deliverable and runnable and breaker <> 'closed')
  for no key update skip locked
), prober as materialized (
  select distinct on (tenant_id, destination_key) subscription_id, tenant_id, destination_key,
    $1::timestamptz + (timeout_ms + $7::integer) * interval '1 ms' as probe_until
  from candidate join cooled using (tenant_id, destination_key) where deliverable and runnable
  order by tenant_id, destination_key, turn
), half_open as (
  update destination d set state = 'half_open', blocked_until = p.probe_until from prober p
  where d.tenant_id = p.tenant_id and d.destination_key = p.destination_key
), admitted as materialized (
  select c.*, p.subscription_id is not null as probe from candidate c left join prober p using (subscription_id)
  where c.deliverable and (c.breaker = 'closed' or not c.runnable or p.subscription_id is not null)
), shed as (
  update lane set state = 'blocked',
    due_at = coalesce(p.probe_until, greatest(c.blocked_until, $1::timestamptz + interval '1 second'))
  from candidate c left join prober p on p.tenant_id = c.tenant_id and p.destination_key = c.destination_key
  where lane.subscription_id = c.subscription_id and c.deliverable and c.runnable and c.breaker <> 'closed'
    and p.subscription_id is distinct from c.subscription_id
  returning 1
), held as (
  update lane set state = 'held' from candidate c where lane.subscription_id = c.subscription_id and not c.deliverable returning 1
), job as materialized (
  select a.subscription_id, j.*, uuid7($1) as attempt_id, e.attributes, e.traceparent, e.tracestate, e.source, e.resource_type,
    e.event_key, e.schema_major, coalesce(e.record_time, e.received_at) as event_time, e.data,
    sum(e.data_bytes) over (partition by a.subscription_id order by j.nth) - e.data_bytes as bytes_before
  from admitted a
  cross join lateral (
    select line.*, row_number() over (order by line.aside desc, case when line.aside then line.due_at end, line.seq) as nth
    from (
      (select id, tenant_id as owner, ce_id, kind, attempts, failures, aside, due_at, seq from delivery
        where subscription_id = a.subscription_id and aside and due_at <= $1 order by due_at, seq limit $4)
      union all
      (select id, tenant_id, ce_id, kind, attempts, failures, aside, due_at, seq from delivery
        where subscription_id = a.subscription_id and not aside and a.head_due order by seq limit $4)
    ) line order by nth limit case when a.solo or a.probe then 1 else $4::integer end
  ) j
  join event_inbox e on e.tenant_id = j.owner and e.ce_id = j.ce_id
), turn_job as materialized (
  select * from job where nth = 1 or bytes_before < $5
), air as (
  select t.subscription_id, array_agg(t.id order by t.nth) as deliveries, array_agg(t.attempt_id order by t.nth) as attempts
  from turn_job t join admitted a using (subscription_id) where t.nth = 1 or a.ordering = 'parallel' group by t.subscription_id
), leased as (
  update lane set state = 'leased', lease_token = lane.lease_token + 1,
    lease_until = $1::timestamptz + (a.timeout_ms + $7::integer) * interval '1 ms',
    in_air = coalesce(air.deliveries, '{}'), in_air_attempts = coalesce(air.attempts, '{}')
  from admitted a left join air using (subscription_id) where lane.subscription_id = a.subscription_id
  returning lane.subscription_id, lane.lease_token as token
)
select a.subscription_id, a.tenant_id, a.destination_key, a.version, l.token, a.wake_gen, a.ordering, a.timeout_ms, a.retry_schedule,
  a.solo, a.probe, t.id as delivery_id, t.attempt_id, t.kind, t.attempts, t.failures, t.aside, t.ce_id, t.attributes,
  t.traceparent, t.tracestate, t.source, t.resource_type, t.event_key, t.schema_major, t.event_time, t.data, counts.shed, counts.held
from (select (select count(*) from shed)::integer as shed, (select count(*) from held)::integer as held) counts
left join (admitted a join leased l using (subscription_id)) on true
left join turn_job t on t.subscription_id = a.subscription_id
order by a.turn, a.subscription_id, t.nth`

interface JobRow {
  tenant_id: string
  attempt_id: string
  kind: ClaimedJob['kind']
  attempts: number
  failures: number
  aside: boolean
  ce_id: string
  attributes: Record<string, string>
  traceparent: string | null
  tracestate: string | null
  source: string
  resource_type: string
  event_key: string
  schema_major: number
  event_time: Date
  data: Buffer | null
}

interface ClaimRow extends JobRow {
  subscription_id: string | null
  destination_key: string
  version: number
  token: number
  wake_gen: number
  ordering: Ordering
  timeout_ms: number
  retry_schedule: unknown
  solo: boolean
  probe: boolean
  delivery_id: string | null
  shed: number
  held: number
}

function laneOf(row: ClaimRow, subscriptionId: string): ClaimedLane {
  return {
    subscriptionId,
    tenantId: row.tenant_id,
    destinationKey: row.destination_key,
    version: row.version,
    token: row.token,
    wakeGen: row.wake_gen,
    ordering: row.ordering,
    timeoutMs: row.timeout_ms,
    retrySchedule: row.retry_schedule,
    solo: row.solo,
    probe: row.probe,
    jobs: [],
  }
}

function jobOf(row: JobRow, deliveryId: string): ClaimedJob {
  return {
    deliveryId,
    attemptId: row.attempt_id,
    kind: row.kind,
    attempts: row.attempts,
    failures: row.failures,
    aside: row.aside,
    eventTime: row.event_time.getTime(),
    event: {
      tenantId: row.tenant_id,
      id: row.ce_id,
      source: row.source,
      key: row.event_key,
      resourceType: row.resource_type,
      schemaMajor: row.schema_major,
      attributes: row.attributes,
      traceparent: row.traceparent,
      tracestate: row.tracestate,
      data: row.data,
    },
  }
}

/**
 * More jobs of a parallel lane that `lane` holds the lease of, marked as in the air; its lease starts anew. None when the lease
 * is lost, the subscription has changed or the breaker is not closed.
 */
export async function claimMore(
  db: Database,
  lane: ClaimedLane,
  request: { now: Date; jobs: number; laneBytes: number; leaseMarginMs: number },
): Promise<ClaimedJob[]> {
  const { rows } = await db.query<JobRow & { delivery_id: string }>({
    name: 'claim_more',
    text: CLAIM_MORE,
    values: [
      request.now,
      lane.subscriptionId,
      lane.token,
      lane.version,
      request.jobs,
      request.laneBytes,
      lane.timeoutMs + request.leaseMarginMs,
    ],
  })
  return rows.map((row) => jobOf(row, row.delivery_id))
}

const CLAIM_MORE = `
with held as materialized (
  select subscription_id, in_air from lane l
  where subscription_id = $2 and lease_token = $3 and version = $4 and state = 'leased' and not exists (
    select from destination d where d.tenant_id = l.tenant_id and d.destination_key = l.destination_key and d.state <> 'closed')
  for no key update
), job as materialized (
  select j.*, uuid7($1) as attempt_id, e.attributes, e.traceparent, e.tracestate, e.source, e.resource_type, e.event_key,
    e.schema_major, coalesce(e.record_time, e.received_at) as event_time, e.data,
    sum(e.data_bytes) over (order by j.nth) - e.data_bytes as bytes_before
  from held h
  cross join lateral (
    select line.*, row_number() over (order by line.aside desc, case when line.aside then line.due_at end, line.seq) as nth
    from (
      (select id, tenant_id, ce_id, kind, attempts, failures, aside, due_at, seq from delivery
        where subscription_id = $2 and aside and due_at <= $1 and id <> all(h.in_air) order by due_at, seq limit $5)
      union all
      (select id, tenant_id, ce_id, kind, attempts, failures, aside, due_at, seq from delivery
        where subscription_id = $2 and not aside and (attempts = 0 or due_at <= $1) and id <> all(h.in_air) order by seq limit $5)
    ) line order by nth limit $5
  ) j
  join event_inbox e on e.tenant_id = j.tenant_id and e.ce_id = j.ce_id
), turn_job as materialized (
  select * from job where nth = 1 or bytes_before < $6
), marked as (
  update lane set lease_until = $1::timestamptz + $7::integer * interval '1 ms',
    in_air = lane.in_air || (select array_agg(id order by nth) from turn_job),
    in_air_attempts = lane.in_air_attempts || (select array_agg(attempt_id order by nth) from turn_job)
  from held h where lane.subscription_id = h.subscription_id and exists (select from turn_job)
)
select tenant_id, id as delivery_id, attempt_id, kind, attempts, failures, aside, ce_id, attributes, traceparent, tracestate, source,
  resource_type, event_key, schema_major, event_time, data
from turn_job order by nth`

/**
 * Puts lanes back into the ring because something changed for them (a retry by hand, a replay, an edit, a breaker that was
 * reset): idle, waiting, blocked and held ones get ready; a leased one is looked at again when it is released. Called in the
 * transaction of the change, after the subscriptions' and destinations' rows.
 */
export async function wakeLanes(db: Database, subscriptionIds: readonly string[]): Promise<void> {
  await db.query({ name: 'wake_lanes', text: WAKE_LANES, values: [subscriptionIds] })
}

// All constrained columns of a woken lane are set: see STORE_EVENTS.
const WAKE_LANES = `
with locked as materialized (
  select subscription_id, tenant_id, state from lane where subscription_id = any($1::uuid[]) order by subscription_id for no key update
), waking as materialized (
  select subscription_id, tenant_id, row_number() over (partition by tenant_id order by subscription_id) - 1 as nth
  from locked where state in ('idle', 'waiting', 'blocked', 'held')
), turns as materialized (
  select * from take_turns(array(select tenant_id from waking))
)
update lane set wake_gen = lane.wake_gen + 1,
  state = case when w.subscription_id is null then lane.state else 'ready' end,
  due_at = case when w.subscription_id is null then lane.due_at end,
  lease_until = case when w.subscription_id is null then lane.lease_until end,
  in_air = case when w.subscription_id is null then lane.in_air else '{}' end,
  in_air_attempts = case when w.subscription_id is null then lane.in_air_attempts else '{}' end,
  turn = coalesce(t.first_turn + w.nth, lane.turn)
from locked k left join waking w using (subscription_id) left join turns t on t.tenant_id = w.tenant_id
where lane.subscription_id = k.subscription_id`

export interface Ticked {
  /** Lanes whose due_at has come, or whose lease ran out. */
  ready: number
  /** Leases that ran out: the worker was killed, paused or cut off. */
  expired: number
  poisoned: number
}

/**
 * Puts lanes that are due back into the ring, and takes lanes back whose lease ran out. Of the latter only what was in the air
 * is blamed: its attempt is recorded as outcome_unknown, its crash count rises, and at `poisonThreshold` crashes in a row it is
 * dead-lettered as poisoned. Such a lane runs solo until an outcome is recorded.
 */
export async function tickLanes(
  db: Database,
  request: { now: Date; limit: number; poisonThreshold: number },
): Promise<Ticked> {
  const { rows } = await db.query<Ticked>({
    name: 'tick_lanes',
    text: TICK_LANES,
    values: [request.now, request.limit, request.poisonThreshold],
  })
  return rows[0]!
}

const TICK_LANES = `
with due as materialized (
  select subscription_id, tenant_id from lane where state in ('waiting', 'blocked') and due_at <= $1
  order by due_at limit $2 for no key update skip locked
), expired as materialized (
  select subscription_id, tenant_id, in_air, in_air_attempts from lane where state = 'leased' and lease_until <= $1
  order by subscription_id limit $2 for no key update skip locked
), blamed as materialized (
  select e.subscription_id, e.tenant_id, air.delivery_id, air.attempt_id
  from expired e cross join lateral unnest(e.in_air, e.in_air_attempts) as air(delivery_id, attempt_id)
), unknown as (
  insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, outcome)
  select b.attempt_id, b.delivery_id, b.tenant_id, b.subscription_id, d.attempts + 1,
    to_timestamp(('x' || replace(left(b.attempt_id::text, 13), '-', ''))::bit(48)::bigint / 1000.0), 'outcome_unknown'
  from blamed b join delivery d on d.id = b.delivery_id
  on conflict (id) do nothing
  returning subscription_id, tenant_id, started_at
), poisoned as (
  delete from delivery d using blamed b where d.id = b.delivery_id and d.crashes + 1 >= $3 returning d.*
), archived as (
  insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes,
    created_at, finished_at, last_status, last_error, replay_of, replay_id)
  select id, seq, tenant_id, subscription_id, ce_id, kind, 'dead_lettered', 'poisoned', attempts + 1, failures, crashes + 1,
    created_at, $1, last_status, coalesce(last_error, 'no outcome'), replay_of, replay_id from poisoned
), happened as (
  select subscription_id, tenant_id, started_at as at, 'outcome_unknown' as outcome, null::integer as duration_ms, null as fate, 1 as step
  from unknown
  union all
  select subscription_id, tenant_id, $1::timestamptz, null, null, 'dead_lettered', 1 from poisoned
), counted as (${COUNT_OUTCOMES}
), crashed as (
  update delivery d set attempts = attempts + 1, crashes = crashes + 1 from blamed b where d.id = b.delivery_id and d.crashes + 1 < $3
), returning_lane as materialized (
  select subscription_id, tenant_id, crashed, row_number() over (partition by tenant_id order by subscription_id) - 1 as nth
  from (select subscription_id, tenant_id, false as crashed from due
    union all select subscription_id, tenant_id, true from expired) l
), turns as materialized (
  select * from take_turns(array(select tenant_id from returning_lane))
), returned as (
  update lane set state = 'ready', due_at = null, lease_until = null, in_air = '{}', in_air_attempts = '{}',
    lease_token = case when r.crashed then lane.lease_token + 1 else lane.lease_token end, solo = lane.solo or r.crashed,
    turn = t.first_turn + r.nth
  from returning_lane r join turns t using (tenant_id) where lane.subscription_id = r.subscription_id
)
select (select count(*) from returning_lane)::integer as ready, (select count(*) from expired)::integer as expired,
  (select count(*) from poisoned)::integer as poisoned`

/**
 * The belt to the wake-ups' braces: finds lanes that are idle or waiting although something in their line could go, and puts
 * them into the ring. Answers how many; other than 0 means that a wake-up was lost somewhere, which is a bug worth a warning.
 */
export async function sweepLanes(db: Database): Promise<number> {
  const { rows } = await db.query<{ subscription_id: string }>({ name: 'sweep_lanes', text: SWEEP_LANES })
  if (rows.length > 0)
    await wakeLanes(
      db,
      rows.map((row) => row.subscription_id),
    )
  return rows.length
}

const SWEEP_LANES = `
select l.subscription_id from lane l
where (l.state in ('idle', 'waiting') and (select d.id from delivery d where d.subscription_id = l.subscription_id and not d.aside order by d.seq limit 1) is not null)
  or (l.state = 'idle' and (select d.id from delivery d where d.subscription_id = l.subscription_id and d.aside order by d.due_at limit 1) is not null)
limit 1000`
