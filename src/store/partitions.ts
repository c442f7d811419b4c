// Weekly partitions: made ahead, so that no row of an ordinary week ends in a default partition, and dropped when retention says so.
// Each statement is a transaction of its own and gives up when others hold the table: see the migration for the locks.
import type { Database } from './pool.ts'

/** By table, the column that says how old a row is. */
const WEEKLY = {
  event_inbox: 'received_at',
  quarantine: 'quarantined_at',
  delivery_history: 'finished_at',
  attempt: 'started_at',
  outcome_hour: 'began_at',
} as const
export type WeeklyTable = keyof typeof WEEKLY
export const WEEKLY_TABLES = Object.keys(WEEKLY) as WeeklyTable[]

const WEEK_MS = 7 * 24 * 3600 * 1000
/** What has no partition of its own is few, and is deleted row by row, so many at a time. */
const STRAYS_PER_STEP = 1000

/** Makes what is missing of the last week's, this week's and the next `weeksAhead` weeks' partitions; answers how many it made. */
export async function makePartitions(db: Database, now: Date, weeksAhead: number): Promise<number> {
  let made = 0
  for (const parent of WEEKLY_TABLES) {
    for (let week = -1; week <= weeksAhead; week++) {
      const at = new Date(now.getTime() + week * WEEK_MS)
      const { rows } = await db.query<{ made: boolean }>('select make_week($1, $2) as made', [parent, at])
      if (rows[0]?.made) made++
    }
  }
  return made
}

export interface Week {
  name: string
  lower: string
  upper: string
}

/** The partitions of `parent` whose week was over at `before`, the oldest first. */
export async function weeksOverBy(db: Database, parent: WeeklyTable, before: Date): Promise<Week[]> {
  const { rows } = await db.query<Week>(WEEKS_OVER, [parent, before])
  return rows
}

const WEEKS_OVER = `
select name, lower, upper from weeks_of($1) where week + interval '7 days' <= $2 order by week`

/** False: an unfinished delivery needs it, so it stays. */
export async function dropWeek(db: Database, parent: WeeklyTable, { name, lower, upper }: Week): Promise<boolean> {
  const { rows } = await db.query<{ dropped: boolean }>('select drop_week($1, $2, $3, $4) as dropped', [
    parent,
    name,
    lower,
    upper,
  ])
  return rows[0]?.dropped ?? false
}

/** Deletes some of the rows older than `before` that lie in no week of their own and that nothing needs; answers how many. */
export async function deleteStrays(db: Database, parent: WeeklyTable, before: Date): Promise<number> {
  const { rowCount } = await db.query(DELETE_STRAYS[parent], [before, STRAYS_PER_STEP])
  return rowCount ?? 0
}

const strays = (parent: WeeklyTable, needed: string): string => `
delete from ${parent}_default where ctid = any(array(
  select s.ctid from ${parent}_default s where s.${WEEKLY[parent]} < $1 and ${needed} limit $2))`

const DELETE_STRAYS: Readonly<Record<WeeklyTable, string>> = {
  event_inbox: strays(
    'event_inbox',
    '(select d.id from delivery d where d.ce_id = s.ce_id and d.tenant_id = s.tenant_id limit 1) is null',
  ),
  quarantine: strays('quarantine', 'true'),
  delivery_history: strays('delivery_history', 'true'),
  attempt: strays('attempt', '(select d.id from delivery d where d.id = s.delivery_id limit 1) is null'),
  outcome_hour: strays('outcome_hour', 'true'),
}

/** Deletes replays that have been over since `before`; answers how many. Those of a deleted subscription go with it. */
export async function deleteOldReplays(db: Database, before: Date): Promise<number> {
  const { rowCount } = await db.query(DELETE_OLD_REPLAYS, [before, STRAYS_PER_STEP])
  return rowCount ?? 0
}

const DELETE_OLD_REPLAYS = `
delete from replay where id = any(array(
  select id from replay where status <> 'running' and next_step_at is null and finished_at < $1 limit $2))`
