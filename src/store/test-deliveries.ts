// Tests sent by hand, from their making to their one attempt's outcome. See migrations/0013_test_deliveries.sql.
import type { Event } from '../event/event.ts'
import type { ClaimedJob, ClaimedLane } from './lanes.ts'
import type { AttemptRow } from './outcomes.ts'
import type { Database } from './pool.ts'
import type { TenantDatabase } from './tenant.ts'

/** Stores a test that some dispatcher is to send; answers its id. */
export async function insertTestDelivery(
  db: TenantDatabase,
  test: { subscriptionId: string; event: Event; now: Date },
): Promise<string> {
  const { subscriptionId, event, now } = test
  const stored = JSON.stringify({ ...event, data: event.data?.toString('base64') ?? null })
  const values = [now, db.tenantId, subscriptionId, event.id, stored]
  const { rows } = await db.query<{ id: string }>(INSERT_TEST, values)
  return rows[0]!.id
}

const INSERT_TEST = `
insert into test_delivery (id, tenant_id, subscription_id, event_id, event, created_at)
values (uuid7($1), $2, $3, $4, $5, $1) returning id`

/** A test as an attempt takes it: a lane of its own with one job, and a schedule of one step. */
export interface ClaimedTest {
  lane: ClaimedLane
  job: ClaimedJob
}

/** Takes up to `limit` tests that nobody has, not of `cappedTenants`, for the subscription's time-out and `marginMs` more. */
export async function claimTests(
  db: Database,
  claim: { now: Date; limit: number; cappedTenants: readonly string[]; marginMs: number },
): Promise<ClaimedTest[]> {
  const values = [claim.now, claim.limit, claim.cappedTenants, claim.marginMs]
  const { rows } = await db.query<TestRow>({ name: 'claim_tests', text: CLAIM_TESTS, values })
  return rows.map(testOf)
}

const CLAIM_TESTS = `
with waiting as materialized (
  select id from test_delivery where attempt_id is null and tenant_id <> all($3::text[]) order by id limit $2 for update skip locked
)
update test_delivery t set attempt_id = uuid7($1), claimed_until = $1::timestamptz + (s.timeout_ms + $4::integer) * interval '1 ms'
from waiting w, subscription s
where t.id = w.id and s.id = t.subscription_id and s.deleted_at is null
returning t.id, t.tenant_id, t.subscription_id, t.event, t.attempt_id, t.created_at, s.destination_key, s.version, s.timeout_ms`

interface TestRow {
  id: string
  tenant_id: string
  subscription_id: string
  event: Omit<Event, 'data'> & { data: string | null }
  attempt_id: string
  created_at: Date
  destination_key: string
  version: number
  timeout_ms: number
}

function testOf(row: TestRow): ClaimedTest {
  const { event } = row
  return {
    lane: {
      subscriptionId: row.subscription_id,
      tenantId: row.tenant_id,
      destinationKey: row.destination_key,
      version: row.version,
      token: 0,
      wakeGen: 0,
      ordering: 'parallel',
      timeoutMs: row.timeout_ms,
      retrySchedule: [0],
      solo: false,
      probe: false,
      jobs: [],
    },
    job: {
      deliveryId: row.id,
      attemptId: row.attempt_id,
      kind: 'test',
      attempts: 0,
      failures: 0,
      aside: false,
      eventTime: row.created_at.getTime(),
      event: { ...event, data: event.data === null ? null : Buffer.from(event.data, 'base64') },
    },
  }
}

/** Records the outcome of a test's attempt, and ends the test: whatever the outcome, there is no other attempt. */
export async function finishTest(db: Database, attempt: AttemptRow, now: Date): Promise<void> {
  await db.query({
    name: 'finish_test',
    text: FINISH_TEST,
    values: [
      now,
      attempt.deliveryId,
      attempt.attemptId,
      new Date(attempt.startedAt),
      attempt.durationMs,
      attempt.outcome,
      attempt.status,
      attempt.errorClass,
      attempt.errorDetail,
      attempt.response,
    ],
  })
}

const FINISH_TEST = `
with finished as (
  delete from test_delivery where id = $2 and attempt_id = $3 returning *
), logged as (
  insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, duration_ms, outcome, status, error_class,
    error_detail, response)
  select $3, id, tenant_id, subscription_id, 1, $4, $5::integer, $6::text, $7::integer, $8::text, $9::text, $10::bytea from finished
)
insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at,
  finished_at, last_status, last_error)
select id, 0, tenant_id, subscription_id, event_id, 'test', case when $6 = 'delivered' then 'delivered' else 'dead_lettered' end,
  case when $6 <> 'delivered' then 'exhausted' end, 1, case when $6 = 'failed' then 1 else 0 end, 0, created_at, $1, $7::integer, $9::text
from finished`

/** Ends a test that could not be attempted, for `error`. */
export async function cancelTest(db: Database, test: { id: string; error: string; now: Date }): Promise<void> {
  await db.query({ name: 'cancel_test', text: CANCEL_TEST, values: [test.now, test.id, test.error] })
}

const CANCEL_TEST = `
with cancelled as (delete from test_delivery where id = $2 returning *)
insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at,
  finished_at, last_error)
select id, 0, tenant_id, subscription_id, event_id, 'test', 'dead_lettered', 'cancelled', 0, 0, 0, created_at, $1, $3 from cancelled`

/**
 * Ends tests that nobody will finish: whose dispatcher is gone (their attempt's outcome is unknown; it is not made again), and those made
 * before `waitedSince`, for which there was no dispatcher, or whose subscription is deleted. Answers how many.
 */
export async function abandonTests(db: Database, abandon: { now: Date; waitedSince: Date }): Promise<number> {
  const values = [abandon.now, abandon.waitedSince]
  const { rowCount } = await db.query({ name: 'abandon_tests', text: ABANDON_TESTS, values })
  return rowCount ?? 0
}

const ABANDON_TESTS = `
with abandoned as (
  delete from test_delivery where claimed_until <= $1 or attempt_id is null and created_at <= $2 returning *
), logged as (
  insert into attempt (id, delivery_id, tenant_id, subscription_id, number, started_at, outcome)
  select attempt_id, id, tenant_id, subscription_id, 1, created_at, 'outcome_unknown' from abandoned where attempt_id is not null
)
insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at,
  finished_at, last_error)
select id, 0, tenant_id, subscription_id, event_id, 'test', 'dead_lettered', case when attempt_id is null then 'cancelled' else 'exhausted' end,
  (attempt_id is not null)::integer, 0, 0, created_at, $1, case when attempt_id is null then 'nobody sent it' else 'no outcome' end
from abandoned`
