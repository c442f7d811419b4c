// How a subscription fares, for its owner: sums of counted hours, its lane, its breaker, and the head of its queue. Nothing here reads
// the attempts themselves, so the answer costs the same however many there were.
import { LATENCY_COLUMNS } from './outcome-hours.ts'
import type { TenantDatabase } from './tenant.ts'

export interface OutcomeCounts {
  delivered: number
  failed: number
  outcomeUnknown: number
  deliveriesDelivered: number
  deliveriesDeadLettered: number
  lastDeliveredAt: Date | null
  lastFailedAt: Date | null
  /** Attempts with an outcome by latency class: see LATENCY_BOUNDS_MS. */
  latencies: number[]
}

/** What the hours from `since` on, the beginning of one, come to. */
export async function sumOutcomes(
  db: TenantDatabase,
  of: { subscriptionId: string; since: Date },
): Promise<OutcomeCounts> {
  const { rows } = await db.query<OutcomeCounts>(SUM_OUTCOMES, [db.tenantId, of.subscriptionId, of.since])
  return rows[0]!
}

const SUM_OUTCOMES = `
select coalesce(sum(delivered), 0) as delivered, coalesce(sum(failed), 0) as failed,
  coalesce(sum(outcome_unknown), 0) as "outcomeUnknown", coalesce(sum(deliveries_delivered), 0) as "deliveriesDelivered",
  coalesce(sum(deliveries_dead_lettered), 0) as "deliveriesDeadLettered", max(last_delivered_at) as "lastDeliveredAt",
  max(last_failed_at) as "lastFailedAt",
  array[${LATENCY_COLUMNS.map((column) => `coalesce(sum(${column}), 0)`).join(', ')}]::float8[] as latencies
from outcome_hour where tenant_id = $1 and subscription_id = $2 and hour >= uuid7_floor($3)`

export interface QueueState {
  state: 'idle' | 'waiting' | 'blocked' | 'ready' | 'leased' | 'held'
  /** Unfinished deliveries, not tried yet and tried before: each counted up to `countUpTo`. */
  queued: number
  retrying: number
  /** When the oldest of them was made. */
  oldest: Date | null
  /** When the first of them is due, whatever holds it back. */
  nextDue: Date | null
  /** Of a lane that is blocked: until when. */
  blockedUntil: Date | null
  firstFailureAt: Date | null
  lastFailureAt: Date | null
  breaker: {
    state: 'closed' | 'open' | 'half_open'
    failures: number
    opened: number
    blockedUntil: Date | null
  }
}

/** A subscription's lane, breaker and queue; null when there is no such lane. */
export async function findQueue(
  db: TenantDatabase,
  of: { subscriptionId: string; countUpTo: number },
): Promise<QueueState | null> {
  const { rows } = await db.query<QueueRow>(FIND_QUEUE, [db.tenantId, of.subscriptionId, of.countUpTo])
  const [row] = rows
  if (!row) return null
  const { breakerState: state, failures, opened, breakerBlockedUntil: blockedUntil, ...queue } = row
  return { ...queue, breaker: { state, failures, opened, blockedUntil } }
}

type QueueRow = Omit<QueueState, 'breaker'> & {
  breakerState: QueueState['breaker']['state']
  failures: number
  opened: number
  breakerBlockedUntil: Date | null
}

const FIND_QUEUE = `
select l.state, queued.n as queued, retrying.n as retrying, oldest.created_at as oldest, least(head.due_at, retry.due_at) as "nextDue",
  case when l.state = 'blocked' then l.due_at end as "blockedUntil", l.first_failure_at as "firstFailureAt",
  l.last_failure_at as "lastFailureAt", coalesce(d.state, 'closed') as "breakerState", coalesce(d.failures, 0) as failures,
  coalesce(d.opened, 0) as opened, d.blocked_until as "breakerBlockedUntil"
from lane l
left join destination d on d.tenant_id = l.tenant_id and d.destination_key = l.destination_key
cross join lateral (
  select count(*) as n from (
    select from delivery where tenant_id = $1 and subscription_id = $2 and attempts = 0 limit $3) q) queued
cross join lateral (
  select count(*) as n from (
    select from delivery where tenant_id = $1 and subscription_id = $2 and attempts > 0 limit $3) r) retrying
left join lateral (
  select created_at from delivery where tenant_id = $1 and subscription_id = $2 order by id limit 1) oldest on true
left join lateral (
  select due_at from delivery where tenant_id = $1 and subscription_id = $2 and not aside order by seq limit 1) head on true
left join lateral (
  select due_at from delivery where tenant_id = $1 and subscription_id = $2 and aside order by due_at limit 1) retry on true
where l.tenant_id = $1 and l.subscription_id = $2`
