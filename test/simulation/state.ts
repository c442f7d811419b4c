// What is in the database, read in one statement after every step that others can see.
import type { Pool } from '../../src/store/pool.ts'
import type { BreakerState } from '../../src/dispatch/breaker.ts'

interface SubscriptionState {
  id: string
  enabled: boolean
  verification: string
  deleted: boolean
  version: number
  reason: string | null
}

/** Times in epoch ms. */
export interface LaneState {
  id: string
  state: 'idle' | 'waiting' | 'blocked' | 'ready' | 'leased' | 'held'
  key: string
  version: number
  due: number | null
  token: number
  leaseUntil: number | null
  inAir: string[]
  attempts: string[]
  solo: boolean
  wakeGen: number
  firstFailure: number | null
  lastFailure: number | null
}

export interface DeliveryState {
  id: string
  sub: string
  seq: number
  event: string
  attempts: number
  failures: number
  crashes: number
  aside: boolean
  due: number
}

export interface State {
  subscriptions: SubscriptionState[]
  lanes: LaneState[]
  deliveries: DeliveryState[]
  breakers: (BreakerState & { key: string })[]
}

export interface FinishedDelivery {
  id: string
  state: 'delivered' | 'dead_lettered'
  reason: 'exhausted' | 'poisoned' | 'cancelled' | null
  attempts: number
  failures: number
}

/** Everything but the history, as text: two that are equal are the same state. */
export async function readState(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ state: string }>({ name: 'read_state', text: READ_STATE })
  return rows[0]!.state
}

const READ_STATE = `
select json_build_object(
  'subscriptions', (select coalesce(json_agg(json_build_object('id', id, 'enabled', enabled, 'verification', verification_state,
    'deleted', deleted_at is not null, 'version', version, 'reason', disabled_reason) order by id), '[]') from subscription),
  'lanes', (select coalesce(json_agg(json_build_object('id', subscription_id, 'state', state, 'key', tenant_id || ' ' || destination_key,
    'version', version, 'due', (extract(epoch from due_at) * 1000)::bigint, 'token', lease_token,
    'leaseUntil', (extract(epoch from lease_until) * 1000)::bigint, 'inAir', in_air, 'attempts', in_air_attempts, 'solo', solo, 'wakeGen', wake_gen,
    'firstFailure', (extract(epoch from first_failure_at) * 1000)::bigint,
    'lastFailure', (extract(epoch from last_failure_at) * 1000)::bigint) order by subscription_id), '[]') from lane),
  'deliveries', (select coalesce(json_agg(json_build_object('id', id, 'sub', subscription_id, 'seq', seq, 'event', ce_id,
    'attempts', attempts, 'failures', failures, 'crashes', crashes, 'aside', aside, 'due', (extract(epoch from due_at) * 1000)::bigint)
    order by seq), '[]') from delivery),
  'breakers', (select coalesce(json_agg(json_build_object('key', tenant_id || ' ' || destination_key, 'state', state,
    'failures', failures, 'opened', opened, 'blockedUntil', (extract(epoch from blocked_until) * 1000)::bigint)
    order by tenant_id, destination_key), '[]') from destination)
)::text as state`

export async function readFinished(pool: Pool, ids: readonly string[]): Promise<FinishedDelivery[]> {
  const { rows } = await pool.query<FinishedDelivery>({
    name: 'read_finished',
    text: 'select id, state, reason, attempts, failures from delivery_history where id = any($1::uuid[])',
    values: [ids],
  })
  return rows
}

export interface RecordedAttempt {
  id: string
  delivery: string
  number: number
  outcome: 'delivered' | 'failed' | 'outcome_unknown'
}

export async function readAttempts(pool: Pool): Promise<RecordedAttempt[]> {
  const { rows } = await pool.query<RecordedAttempt>(
    'select id, delivery_id as delivery, number, outcome from attempt order by id',
  )
  return rows
}

/** An empty database, whose sequences begin again. */
export async function clear(pool: Pool): Promise<void> {
  await pool.query(CLEAR)
}

const CLEAR = `
delete from attempt; delete from delivery; delete from delivery_history; delete from lane; delete from destination;
delete from tenant_turn; delete from subscription; delete from subscription_change; delete from outcome_hour; delete from event_inbox;
select setval('virtual_time', 0), setval('event_seq', 1), setval('delivery_seq', 1);`
