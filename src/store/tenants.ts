// What waits for each tenant, as operators see it.
import type { Database } from './pool.ts'

export interface TenantBacklog {
  tenantId: string
  subscriptions: number
  /** Unfinished deliveries. Counted up to `countUpTo` a subscription, so that a deep backlog does not make the answer slow. */
  backlog: number
  /** False: there is more than was counted. */
  backlogIsExact: boolean
  /** When the longest-waiting delivery in line was made; null when nothing waits in line. */
  oldestQueuedAt: Date | null
  openBreakers: number
}

export interface TenantList {
  /** The last tenant of the page before; null: the first page. */
  after: string | null
  limit: number
  countUpTo: number
}

/** A page of the tenants that have or had subscriptions, by name. */
export async function listTenants(db: Database, list: TenantList): Promise<TenantBacklog[]> {
  const { rows } = await db.query<TenantBacklog>(LIST_TENANTS, [list.after, list.limit, list.countUpTo])
  return rows
}

const LIST_TENANTS = `
select t.tenant_id as "tenantId", coalesce(waiting.subscriptions, 0)::integer as subscriptions,
  coalesce(waiting.counted, 0)::integer as backlog, coalesce(waiting.exact, true) as "backlogIsExact", waiting.oldest as "oldestQueuedAt",
  (select count(*) from destination d where d.tenant_id = t.tenant_id and d.state <> 'closed')::integer as "openBreakers"
from (select tenant_id from tenant_turn where $1::text is null or tenant_id > $1 order by tenant_id limit $2) t
left join lateral (
  select count(*) filter (where s.deleted_at is null) as subscriptions, sum(queue.counted) as counted,
    bool_and(queue.counted < $3) as exact, min(head.created_at) as oldest
  from subscription s
  cross join lateral (select count(*) as counted from (select from delivery where subscription_id = s.id limit $3) counted) queue
  left join lateral (select created_at from delivery where subscription_id = s.id and not aside order by seq limit 1) head on true
  where s.tenant_id = t.tenant_id and s.drained_at is null
) waiting on true
order by t.tenant_id`
