// Group commit: the outcomes of many attempts, and what becomes of their lanes, in one statement.
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
  durationMs: number
  outcome: 'delivered' | 'failed'
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

/** A lane's next step under its lease: it goes on with other deliveries in the air, or is released. At most one a lane and statement. */
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
  /** An outcome was recorded: the lane need not run solo any more. */
  settled: boolean
  /** The outcomes' effect on the failure streak, in their order: did a success clear it, and which failures came after. */
  streak: { cleared: boolean; firstFailureAt: number | null; lastFailureAt: number | null }
}

export interface Flushed {
  /** Lanes whose lease is no longer ours: nothing was moved. */
  lost: string[]
  /** Lanes that were to go on, but were released because their subscription has changed or their breaker is not closed. */
  stopped: string[]
  /** How many lanes went back into the ring. */
  ready: number
}

/** Writes outcomes and steps in one statement: all or nothing. */
export async function flushOutcomes(
  db: Database,
  batch: { now: Date; attempts: readonly AttemptRow[]; steps: readonly LaneStep[] },
): Promise<Flushed> {
  const { now, attempts, steps } = batch
  const { rows } = await db.query<Flushed>({
    name: 'flush_outcomes',
    text: FLUSH_OUTCOMES,
    values: [now, ...attemptColumns(attempts), ...stepColumns(steps)],
  })
  return rows[0]!
}

function attemptColumns(attempts: readonly AttemptRow[]): unknown[] {
  let at = 1
  return [
    attempts.map((a) => a.attemptId),
    attempts.map((a) => a.deliveryId),
    attempts.map((a) => a.tenantId),
    attempts.map((a) => a.subscriptionId),
    attempts.map((a) => a.token),
    attempts.map((a) => a.number),
    attempts.map((a) => a.startedAt),
    attempts.map((a) => a.durationMs),
    attempts.map((a) => a.outcome),
    attempts.map((a) => a.status),
    attempts.map((a) => a.errorClass),
    attempts.map((a) => a.errorDetail),
    Buffer.concat(attempts.map((a) => a.response)),
    attempts.map((a) => (at += a.response.length) - a.response.length),
    attempts.map((a) => a.response.length),
    attempts.map((a) => a.fate),
    attempts.map((a) => a.reason),
    attempts.map((a) => a.failures),
    attempts.map((a) => a.dueAt),
    attempts.map((a) => a.aside),
  ]
}

function stepColumns(steps: readonly LaneStep[]): unknown[] {
  return [
    steps.map((s) => s.subscriptionId),
    steps.map((s) => s.token),
    steps.map((s) => s.wakeGen),
    steps.map((s) => s.version),
    steps.map((s) => `{${s.inAir.map(({ deliveryId }) => deliveryId).join()}}`),
    steps.map((s) => `{${s.inAir.map(({ attemptId }) => attemptId).join()}}`),
    steps.map((s) => s.underWay),
    steps.map((s) => s.leaseMs),
    steps.map((s) => s.settled),
    steps.map((s) => s.streak.cleared),
    steps.map((s) => s.streak.firstFailureAt),
    steps.map((s) => s.streak.lastFailureAt),
  ]
}

// The statement's snapshot is older than its own writes: what it settles is taken from `settled`, and the rest of a lane's line is
// probed without those rows. The probes are `order by … limit 1` and never exists(), which becomes a hashed sub-plan over all
// pending rows. A lane whose wake_gen has moved is put back into the ring without trusting the probes.
const FLUSH_OUTCOMES = `
with outcome as materialized (
  select attempt_id, delivery_id, tenant_id, subscription_id, token, number, to_timestamp(started_ms / 1000.0) as started_at, duration_ms,
    outcome, status, error_class, error_detail, substring($14::bytea from response_at for response_bytes) as response, fate, reason,
    failures, to_timestamp(due_ms / 1000.0) as due_at, aside
  from unnest($2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $6::bigint[], $7::integer[], $8::bigint[], $9::integer[], $10::text[],
    $11::integer[], $12::text[], $13::text[], $15::integer[], $16::integer[], $17::text[], $18::text[], $19::integer[], $20::bigint[],
    $21::boolean[]) o(attempt_id, delivery_id, tenant_id, subscription_id, token, number, started_ms, duration_ms, outcome, status,
    error_class, error_detail, response_at, response_bytes, fate, reason, failures, due_ms, aside)
), step as materialized (
  select subscription_id, token, wake_gen, version, in_air::uuid[] as in_air, in_air_attempts::uuid[] as in_air_attempts, under_way, lease_ms, settled,
    streak_cleared, to_timestamp(first_failure_ms / 1000.0) as first_failure_at, to_timestamp(last_failure_ms / 1000.0) as last_failure_at
  from unnest($22::uuid[], $23::bigint[], $24::bigint[], $25::integer[], $26::text[], $27::text[], $28::boolean[], $29::integer[], $30::boolean[],
    $31::boolean[], $32::bigint[], $33::bigint[]) s(subscription_id, token, wake_gen, version, in_air, in_air_attempts, under_way, lease_ms,
    settled, streak_cleared, first_failure_ms, last_failure_ms)
), logged as (
  insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, duration_ms, outcome, status, error_class,
    error_detail, response)
  select attempt_id, delivery_id, tenant_id, subscription_id, number, started_at, duration_ms, outcome, status, error_class, error_detail,
    response from outcome
  on conflict (id) do update set started_at = excluded.started_at, duration_ms = excluded.duration_ms, outcome = excluded.outcome,
    status = excluded.status, error_class = excluded.error_class, error_detail = excluded.error_detail, response = excluded.response
  where attempt.outcome = 'outcome_unknown'
), locked as materialized (
  select subscription_id, tenant_id, destination_key, lease_token, wake_gen, version from lane
  where subscription_id in (select subscription_id from step) order by subscription_id for no key update
), valid as materialized (
  select s.*, k.tenant_id, k.wake_gen <> s.wake_gen as woken,
    s.in_air = '{}' or not s.under_way and (k.version <> s.version or coalesce(d.state, 'closed') <> 'closed') as releasing
  from step s join locked k on k.subscription_id = s.subscription_id and k.lease_token = s.token
  left join destination d on d.tenant_id = k.tenant_id and d.destination_key = k.destination_key
), settled as materialized (
  select o.* from outcome o join valid v on v.subscription_id = o.subscription_id and v.token = o.token
), finished as (
  delete from delivery d using settled o where d.id = o.delivery_id and o.fate <> 'retry'
  returning d.id, d.seq, d.tenant_id, d.subscription_id, d.ce_id, d.kind, o.fate, o.reason, o.number, o.failures, d.created_at, o.status,
    coalesce(o.error_detail, d.last_error) as last_error
), archived as (
  insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at,
    finished_at, last_status, last_error)
  select id, seq, tenant_id, subscription_id, ce_id, kind, fate, reason, number, failures, 0, created_at, $1, status, last_error
  from finished
), retried as (
  update delivery d set attempts = o.number, failures = o.failures, crashes = 0, aside = o.aside, due_at = o.due_at,
    last_status = o.status, last_error = o.error_detail
  from settled o where d.id = o.delivery_id and o.fate = 'retry'
), queue as materialized (
  select v.subscription_id, v.tenant_id, v.woken, coalesce(own.head_due, head.due_at) as head_due, least(own.retry_due, retry.due_at) as retry_due
  from valid v
  cross join lateral (
    select array_agg(o.delivery_id) as ids, min(o.due_at) filter (where o.fate = 'retry' and not o.aside) as head_due,
      min(o.due_at) filter (where o.fate = 'retry' and o.aside) as retry_due
    from settled o where o.subscription_id = v.subscription_id
  ) own
  left join lateral (select d.due_at from delivery d where d.subscription_id = v.subscription_id and not d.aside
    and d.id <> all(coalesce(own.ids, '{}')) order by d.seq limit 1) head on true
  left join lateral (select d.due_at from delivery d where d.subscription_id = v.subscription_id and d.aside
    and d.id <> all(coalesce(own.ids, '{}')) order by d.due_at limit 1) retry on true
  where v.releasing
), released as materialized (
  select subscription_id, tenant_id, least(head_due, retry_due) as due_at,
    case when woken or least(head_due, retry_due) <= $1 then 'ready' when head_due is not null then 'blocked'
      when retry_due is not null then 'waiting' else 'idle' end as state
  from queue
), waking as materialized (
  select subscription_id, tenant_id, row_number() over (partition by tenant_id order by subscription_id) - 1 as nth
  from released where state = 'ready'
), turns as materialized (
  select * from take_turns(array(select tenant_id from waking))
), moved as (
  update lane set
    state = coalesce(r.state, 'leased'),
    due_at = case when r.state in ('blocked', 'waiting') then r.due_at end,
    turn = coalesce(t.first_turn + w.nth, lane.turn),
    lease_until = case when r.state is null then $1::timestamptz + v.lease_ms * interval '1 ms' end,
    in_air = case when r.state is null then v.in_air else '{}' end,
    in_air_attempts = case when r.state is null then v.in_air_attempts else '{}' end,
    solo = lane.solo and not v.settled,
    first_failure_at = case when v.streak_cleared then v.first_failure_at else coalesce(lane.first_failure_at, v.first_failure_at) end,
    last_failure_at = case when v.streak_cleared then v.last_failure_at else coalesce(v.last_failure_at, lane.last_failure_at) end
  from valid v left join released r using (subscription_id) left join waking w using (subscription_id)
    left join turns t on t.tenant_id = w.tenant_id
  where lane.subscription_id = v.subscription_id
)
select array(select s.subscription_id::text from step s where not exists (select from valid v where v.subscription_id = s.subscription_id)) as lost,
  array(select v.subscription_id::text from valid v where v.releasing and v.in_air <> '{}') as stopped,
  (select count(*) from waking)::integer as ready`
