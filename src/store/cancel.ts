// What is still queued of deleted subscriptions is dead-lettered as cancelled.
import type { Database } from './pool.ts'

/**
 * Cancels up to `limit` deliveries of deleted subscriptions that no worker has in the air; answers how many. A subscription that
 * was deleted ten minutes ago and has nothing left is done: by then every batch that could still have matched it has ended.
 */
export async function cancelDeleted(db: Database, now: Date, limit: number): Promise<number> {
  const { rows } = await db.query<{ cancelled: number }>({
    name: 'cancel_deleted',
    text: CANCEL_DELETED,
    values: [now, limit],
  })
  return rows[0]?.cancelled ?? 0
}

const CANCEL_DELETED = `
with gone as materialized (
  select l.subscription_id, s.deleted_at from subscription s join lane l on l.subscription_id = s.id
  where s.deleted_at is not null and s.drained_at is null and l.state <> 'leased'
  order by l.subscription_id limit 100 for no key update of l skip locked
), queued as materialized (
  select d.id from gone g cross join lateral (select id from delivery where subscription_id = g.subscription_id limit $2) d limit $2
), removed as (
  delete from delivery d using queued q where d.id = q.id returning d.*
), archived as (
  insert into delivery_history (id, seq, tenant_id, subscription_id, ce_id, kind, state, reason, attempts, failures, crashes, created_at,
    finished_at, last_status, last_error, replay_of, replay_id)
  select id, seq, tenant_id, subscription_id, ce_id, kind, 'dead_lettered', 'cancelled', attempts, failures, crashes, created_at, $1,
    last_status, last_error, replay_of, replay_id from removed
), drained as (
  update subscription s set drained_at = $1 from gone g
  where s.id = g.subscription_id and g.deleted_at <= $1::timestamptz - interval '10 minutes'
    and (select id from delivery d where d.subscription_id = g.subscription_id limit 1) is null
)
select (select count(*) from removed)::integer as cancelled`
