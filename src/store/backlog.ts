// How much is waiting, for those who watch the hub as a whole: never asked on the way of an event.
import type { Database } from './pool.ts'

/** `queued`: not tried yet; `retrying`: waits for its next try; `blocked`: behind an open breaker or a strict head; `held`: not to be sent now. */
export const BACKLOG_STATES = ['queued', 'retrying', 'blocked', 'held'] as const

export interface Backlog {
  state: (typeof BACKLOG_STATES)[number]
  deliveries: number
  /** When the oldest of them was made. */
  oldest: Date
}

/** The unfinished deliveries by state, those without any left out. Reads no more than `limit` of them, so a larger backlog shows as that. */
export async function countBacklog(db: Database, limit: number): Promise<Backlog[]> {
  const { rows } = await db.query<Backlog>(COUNT_BACKLOG, [limit])
  return rows
}

const COUNT_BACKLOG = `
select case when l.state in ('blocked', 'held') then l.state when d.attempts = 0 then 'queued' else 'retrying' end as state,
  count(*)::float8 as deliveries, min(d.created_at) as oldest
from (select subscription_id, attempts, created_at from delivery limit $1) d left join lane l using (subscription_id)
group by 1`

/** How many breakers are open or half open. */
export async function countBreakers(db: Database): Promise<{ open: number; halfOpen: number }> {
  const { rows } = await db.query<{ open: number; halfOpen: number }>(COUNT_BREAKERS)
  return rows[0] ?? { open: 0, halfOpen: 0 }
}

const COUNT_BREAKERS = `
select count(*) filter (where state = 'open')::float8 as open, count(*) filter (where state = 'half_open')::float8 as "halfOpen"
from destination where state <> 'closed'`
