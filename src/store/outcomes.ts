// Group commit: the outcomes of many attempts, and what becomes of their lanes, in one statement.
import { COUNT_OUTCOMES } from './outcome-hours.ts'
import type { Database } from './pool.ts'

/** What one attempt came to. */
export interface AttemptRow {
  attemptId: string
  deliveryId: string
  tenantId: string
  subscriptionId: string
  /** The lease under which it was made. With an old one the attempt is logged, and moves nothing. */
  token: number
  number: number
  /** Epoch ms. */
  startedAt: number
  /** Null where no outcome is known. */
  durationMs: number | null
  /** `outcome_unknown`: we broke it off ourselves; it says nothing about the destination. */
  outcome: 'delivered' | 'failed' | 'outcome_unknown'
  status: number | null
  errorClass: string | null
  errorDetail: string | null
  response: Buffer
  fate: 'delivered' | 'retry' | 'dead_lettered'
  /** Of a dead letter. */
  reason: 'exhausted' | null
  /** Steps of the schedule used up, this attempt's included. */
  failures: number
  /** Epoch ms; of a retry. */
  dueAt: number | null
  /** It has left the line. */
  aside: boolean
}

/** A lane's next step under its lease: it goes on with other deliveries in the air, or is released. */
export interface LaneStep {
  subscriptionId: string
  token: number
  /** As claimed. */
  wakeGen: number
  version: number
  /** The attempts that are in the air from here on; none: the lane is released. */
  inAir: readonly { deliveryId: string; attemptId: string }[]
  /** These attempts have begun (a parallel lane's); otherwise the lane may still be stopped before they do. */
  underWay: boolean
  /** How long the lease lasts from now. */
  leaseMs: number
  /** Epoch ms: the lane is released without its work being done, and not claimed again before that, unless it is edited. */
  notBefore: number | null
  /** The attempts' effect on the failure streak, in their order: did a success clear it, and which failures came after. */
  streak: { cleared: boolean; firstFailureAt: number | null; lastFailureAt: number | null }
}

/** Attempts of a lane that have ended (none: it is only released), and its next step. */
export interface LaneOutcome {
  attempts: readonly AttemptRow[]
  step: LaneStep
}

export interface Flushed {
  /** Leases (see `leaseKey`) that are no longer ours: nothing was moved. */
  lost: string[]
  /** Leases that were to go on, but were released because their subscription has changed or their breaker is not closed. */
  stopped: string[]
  /** How many lanes went back into the ring. */
  ready: number
}

/** A lease's identity: after a long pause one process can settle a lane under an old token and under a new one at once. */
export function leaseKey({ subscriptionId, token }: Pick<LaneStep, 'subscriptionId' | 'token'>): string {
  return `${subscriptionId}/${token}`
}

/** Writes the outcomes and steps of different leases in one statement: all or nothing. */
export async function flushOutcomes(db: Database, outcomes: readonly LaneOutcome[], now: Date): Promise<Flushed> {
  const { rows } = await db.query<Flushed>({
    name: 'flush_outcomes',
    text: FLUSH_OUTCOMES,
    values: [now, ...columnsOf(outcomes.flatMap(entriesOf))],
  })
  return rows[0]!
}

/** Those of `attempts` whose outcome is written already. */
export async function recordedAttempts(db: Database, attempts: readonly AttemptRow[]): Promise<Set<string>> {
  const ids = attempts.map(({ attemptId }) => attemptId)
  const { rows } = await db.query<{ id: string }>(RECORDED_ATTEMPTS, [ids])
  return new Set(rows.map(({ id }) => id))
}

const RECORDED_ATTEMPTS = "select id from attempt where id = any($1::uuid[]) and outcome <> 'outcome_unknown'"

/** One row of the statement: an attempt of a lane, or none; the lane's last row carries its step out. */
interface Entry {
  step: LaneStep
  attempt: AttemptRow | null
  last: boolean
  settled: string
  /** When the lane's queue goes on because of what these attempts left in it: the head of its line, and those that stepped aside. */
  headDue: number | null
  retryDue: number | null
}

function entriesOf({ attempts, step }: LaneOutcome): Entry[] {
  const dueOf = (aside: boolean): number | null => {
    const due = attempts.flatMap((attempt) => (attempt.aside === aside ? (attempt.dueAt ?? []) : []))
    return due.length > 0 ? Math.min(...due) : null
  }
  const lane = {
    step,
    settled: uuids(attempts.map(({ deliveryId }) => deliveryId)),
    headDue: dueOf(false),
    retryDue: dueOf(true),
  }
  const all: readonly (AttemptRow | null)[] = attempts.length > 0 ? attempts : [null]
  return all.map((attempt, at) => ({ ...lane, attempt, last: at === all.length - 1 }))
}

function columnsOf(entries: Entry[]): unknown[] {
  const responses = entries.map(({ attempt }) => attempt?.response ?? Buffer.alloc(0))
  let at = 1
  return [
    entries.map(({ step }) => step.subscriptionId),
    entries.map(({ step }) => step.token),
    entries.map(({ step }) => step.wakeGen),
    entries.map(({ step }) => step.version),
    entries.map(({ step }) => uuids(step.inAir.map(({ deliveryId }) => deliveryId))),
    entries.map(({ step }) => uuids(step.inAir.map(({ attemptId }) => attemptId))),
    entries.map(({ step }) => step.underWay),
    entries.map(({ step }) => step.leaseMs),
    entries.map(({ step }) => step.streak.cleared),
    entries.map(({ step }) => step.streak.firstFailureAt),
    entries.map(({ step }) => step.streak.lastFailureAt),
    entries.map(({ last }) => last),
    entries.map(({ settled }) => settled),
    entries.map(({ headDue }) => headDue),
    entries.map(({ retryDue }) => retryDue),
    entries.map(({ attempt }) => attempt?.attemptId),
    entries.map(({ attempt }) => attempt?.deliveryId),
    entries.map(({ attempt }) => attempt?.tenantId),
    entries.map(({ attempt }) => attempt?.number),
    entries.map(({ attempt }) => attempt?.startedAt),
    entries.map(({ attempt }) => attempt?.durationMs),
    entries.map(({ attempt }) => attempt?.outcome),
    entries.map(({ attempt }) => attempt?.status),
    entries.map(({ attempt }) => attempt?.errorClass),
    entries.map(({ attempt }) => attempt?.errorDetail),
    Buffer.concat(responses),
    responses.map((response) => (at += response.length) - response.length),
    responses.map((response) => response.length),
    entries.map(({ attempt }) => attempt?.fate),
    entries.map(({ attempt }) => attempt?.reason),
    entries.map(({ attempt }) => attempt?.failures),
    entries.map(({ attempt }) => attempt?.dueAt),
    entries.map(({ attempt }) => attempt?.aside),
    entries.map(({ step }) => step.notBefore),
  ]
}

/** As PostgreSQL writes an array: there are no arrays of arrays of different lengths to pass. */
function uuids(ids: readonly string[]): string {
  return `{${ids.join()}}`
}

// `held` are the rows of the lanes that are still ours, locked at their newest version in their order. What the statement itself
// settles is not in its snapshot: that is why a lane's row brings what its attempts leave in the queue, and the rest of the line is
// probed without them. The probes are `order by … limit 1` and never exists(), which becomes a hashed sub-plan over all pending
// rows. A lane whose wake_gen has moved is put back into the ring without trusting the probes. No part joins two others: with
// hundreds of rows the planner, who expects a few, would compare each with each. `late` are outcomes that come after their lease was
// taken back, which had counted them as unknown.
const FLUSH_OUTCOMES = `
with entry as materialized (
  select * from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::text[], $8::boolean[], $9::integer[],
    $10::boolean[], $11::bigint[], $12::bigint[], $13::boolean[], $14::text[], $15::bigint[], $16::bigint[], $17::uuid[], $18::uuid[],
    $19::text[], $20::integer[], $21::bigint[], $22::integer[], $23::text[], $24::integer[], $25::text[], $26::text[],
    $28::integer[], $29::integer[], $30::text[], $31::text[], $32::integer[], $33::bigint[], $34::boolean[], $35::bigint[])
    e(subscription_id, token, wake_gen, version, in_air, in_air_attempts, under_way, lease_ms, streak_cleared, first_failure_ms,
      last_failure_ms, last, settled_ids, head_due_ms, retry_due_ms, attempt_id, delivery_id, tenant_id, number, started_ms,
      duration_ms, outcome, status, error_class, error_detail, response_at, response_bytes, fate, reason, failures, due_ms, aside, not_before_ms)
), logged as (
  insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, duration_ms, outcome, status, error_class,
    error_detail, response)
  select attempt_id, delivery_id, tenant_id, subscription_id, number, to_timestamp(started_ms / 1000.0), duration_ms, outcome, status,
    error_class, error_detail, substring($27::bytea from response_at for response_bytes)
  from entry where attempt_id is not null
  on conflict (id) do update set started_at = excluded.started_at, duration_ms = excluded.duration_ms, outcome = excluded.outcome,
    status = excluded.status, error_class = excluded.error_class, error_detail = excluded.error_detail, response = excluded.response
  where attempt.outcome = 'outcome_unknown' and excluded.outcome <> 'outcome_unknown'
  returning subscription_id, tenant_id, outcome, duration_ms, started_at
), held as materialized (
  select e.*, l.tenant_id as owner, l.destination_key, l.wake_gen <> e.wake_gen as woken, l.version <> e.version as edited
  from entry e join lane l on l.subscription_id = e.subscription_id and l.lease_token = e.token
  order by l.subscription_id for no key update of l
), finished as (
  delete from delivery d using held h where d.id = h.delivery_id and h.fate <> 'retry'
  returning d.id, d.seq, d.tenant_id, d.subscription_id, d.ce_id, d.kind, h.fate, h.reason, h.number, h.failures, d.created_at,
    h.status, coalesce(h.error_detail, d.last_error) as last_error, d.replay_of, d.replay_id
), archived as (
  insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at,
    finished_at, last_status, last_error, replay_of, replay_id)
  select id, seq, tenant_id, subscription_id, ce_id, kind, fate, reason, number, failures, 0, created_at, $1, status, last_error,
    replay_of, replay_id
  from finished
), late as (
  select e.subscription_id, e.tenant_id, a.started_at
  from entry e
  cross join lateral (select started_at from attempt where id = e.attempt_id and outcome = 'outcome_unknown' limit 1) a
  where e.outcome <> 'outcome_unknown' and (e.subscription_id, e.token) not in (select subscription_id, token from held)
), happened as (
  select subscription_id, tenant_id, started_at as at, outcome, duration_ms, null as fate, 1 as step from logged
  union all
  select subscription_id, tenant_id, $1::timestamptz, null, null, fate, 1 from finished
  union all
  select subscription_id, tenant_id, started_at, 'outcome_unknown', null, null, -1 from late
), counted as (${COUNT_OUTCOMES}
), retried as (
  update delivery d set attempts = h.number, failures = h.failures, aside = h.aside,
    crashes = case when h.outcome = 'outcome_unknown' then d.crashes else 0 end,
    due_at = to_timestamp(h.due_ms / 1000.0), last_status = h.status, last_error = h.error_detail
  from held h where d.id = h.delivery_id and h.fate = 'retry'
), step as materialized (
  select h.*, h.in_air = '{}' or not h.under_way and (h.edited or coalesce(d.state, 'closed') <> 'closed') as releasing
  from held h left join destination d on d.tenant_id = h.owner and d.destination_key = h.destination_key
  where h.last
), queue as materialized (
  select s.*, coalesce(to_timestamp(s.head_due_ms / 1000.0), head.due_at) as head_due,
    least(to_timestamp(s.retry_due_ms / 1000.0), retry.due_at) as retry_due
  from step s
  left join lateral (select d.due_at from delivery d where s.releasing and d.subscription_id = s.subscription_id and not d.aside
    and d.id <> all(s.settled_ids::uuid[]) order by d.seq limit 1) head on true
  left join lateral (select d.due_at from delivery d where s.releasing and d.subscription_id = s.subscription_id and d.aside
    and d.id <> all(s.settled_ids::uuid[]) order by d.due_at limit 1) retry on true
), waited as materialized (
  select q.*, not_before_ms is not null and not edited and coalesce(head_due, retry_due) is not null as postponed from queue q
), placed as materialized (
  select q.*, case when not releasing then 'leased' when postponed then 'blocked' when woken or least(head_due, retry_due) <= $1 then 'ready'
    when head_due is not null then 'blocked' when retry_due is not null then 'waiting' else 'idle' end as state
  from waited q
), turns as materialized (
  select * from take_turns(array(select owner from placed where state = 'ready'))
), numbered as materialized (
  select p.*, t.first_turn + row_number() over (partition by p.owner, p.state order by p.subscription_id) - 1 as turn
  from placed p left join turns t on t.tenant_id = p.owner
), moved as (
  update lane set state = n.state,
    due_at = case when n.state = 'blocked' and n.postponed then to_timestamp(n.not_before_ms / 1000.0)
      when n.state in ('blocked', 'waiting') then least(n.head_due, n.retry_due) end,
    turn = case when n.state = 'ready' then n.turn else lane.turn end,
    lease_until = case when n.state = 'leased' then $1::timestamptz + n.lease_ms * interval '1 ms' end,
    in_air = case when n.state = 'leased' then n.in_air::uuid[] else '{}' end,
    in_air_attempts = case when n.state = 'leased' then n.in_air_attempts::uuid[] else '{}' end,
    solo = lane.solo and coalesce(n.outcome = 'outcome_unknown', true),
    first_failure_at = case when n.streak_cleared then to_timestamp(n.first_failure_ms / 1000.0)
      else coalesce(lane.first_failure_at, to_timestamp(n.first_failure_ms / 1000.0)) end,
    last_failure_at = case when n.streak_cleared then to_timestamp(n.last_failure_ms / 1000.0)
      else coalesce(to_timestamp(n.last_failure_ms / 1000.0), lane.last_failure_at) end
  from numbered n where lane.subscription_id = n.subscription_id
)
select array(select subscription_id || '/' || token from entry where last except select subscription_id || '/' || token from step) as lost,
  array(select subscription_id || '/' || token from step where releasing and in_air <> '{}') as stopped,
  (select count(*) from placed where state = 'ready')::integer as ready`
