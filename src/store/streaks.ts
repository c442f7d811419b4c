// Failure streaks that may have lasted too long, and switching their subscriptions off.
import { HUB } from '../event/actor.ts'
import type { Pool } from './pool.ts'
import type { FieldChange } from './subscription-history.ts'
import { transaction } from './transaction.ts'

/** A lane's open failure streak; times in epoch ms. */
export interface OpenStreak {
  subscriptionId: string
  tenantId: string
  firstFailureAt: number
  lastFailureAt: number
}

/**
 * Streaks of enabled subscriptions that began at or before `began` and whose first and last failure are `spreadMs` apart, the
 * oldest first: up to a thousand, and only such as are due, so that those that never will be cannot crowd them out.
 */
export async function openStreaks(
  pool: Pool,
  { began, spreadMs }: { began: Date; spreadMs: number },
): Promise<OpenStreak[]> {
  const values = [began, spreadMs]
  const { rows } = await pool.query<OpenStreak>({ name: 'open_streaks', text: OPEN_STREAKS, values })
  return rows
}

const OPEN_STREAKS = `
select l.subscription_id as "subscriptionId", l.tenant_id as "tenantId",
  floor(extract(epoch from l.first_failure_at) * 1000)::bigint as "firstFailureAt",
  floor(extract(epoch from l.last_failure_at) * 1000)::bigint as "lastFailureAt"
from lane l join subscription s on s.id = l.subscription_id and s.enabled and s.deleted_at is null
where l.first_failure_at <= $1 and l.last_failure_at - l.first_failure_at >= $2::bigint * interval '1 ms'
order by l.first_failure_at limit 1000`

/**
 * Switches a subscription off for `reason`, and writes that into its history, unless its streak has changed meanwhile: one success is enough to keep it. Touches
 * `enabled` alone, never the verification. Answers whether it did.
 */
export async function disableForStreak(
  pool: Pool,
  streak: OpenStreak,
  off: { reason: string; now: Date },
): Promise<boolean> {
  return transaction(pool, async (client) => {
    const locked = await client.query(LOCK_ENABLED, [streak.subscriptionId])
    if (locked.rowCount === 0) return false
    const [first, last] = [new Date(streak.firstFailureAt), new Date(streak.lastFailureAt)]
    const by = [HUB.kind, HUB.id, HUB.name]
    const values = [
      streak.subscriptionId,
      first,
      last,
      off.reason,
      off.now,
      ...by,
      JSON.stringify(changesOf(off.reason)),
    ]
    const { rowCount } = await client.query({ name: 'disable_for_streak', text: DISABLE_FOR_STREAK, values })
    return rowCount === 1
  })
}

const LOCK_ENABLED = 'select from subscription where id = $1 and enabled for no key update'

const DISABLE_FOR_STREAK = `
with unchanged as (
  update lane set version = version + 1, wake_gen = wake_gen + 1
  where subscription_id = $1 and date_trunc('milliseconds', first_failure_at) = $2 and date_trunc('milliseconds', last_failure_at) = $3
  returning subscription_id, version
), disabled as (
  update subscription s set enabled = false, disabled_reason = $4, disabled_at = $5, version = u.version, updated_at = $5
  from unchanged u where s.id = u.subscription_id
  returning s.id, s.version, s.tenant_id
)
insert into subscription_change (subscription_id, version, tenant_id, what, at, by_kind, by_id, by_name, changes)
select id, version, tenant_id, 'auto_disabled', $5, $6, $7, $8, $9 from disabled`

function changesOf(reason: string): FieldChange[] {
  return [
    { field: '/enabled', old: true, new: false },
    { field: '/disabled_reason', old: null, new: reason },
  ]
}
