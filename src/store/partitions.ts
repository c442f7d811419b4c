// Weekly partitions: made ahead, so that no row of an ordinary week ends in a default partition.
import type { Database } from './pool.ts'

const PARTITIONED = ['event_inbox', 'quarantine', 'delivery_history', 'attempt'] as const
const WEEK_MS = 7 * 24 * 3600 * 1000

/** Makes what is missing of the last week's, this week's and the next `weeksAhead` weeks' partitions; answers how many it made. */
export async function makePartitions(db: Database, now: Date, weeksAhead: number): Promise<number> {
  let made = 0
  for (const parent of PARTITIONED) {
    for (let week = -1; week <= weeksAhead; week++) {
      const at = new Date(now.getTime() + week * WEEK_MS)
      const { rows } = await db.query<{ made: boolean }>('select make_week($1, $2) as made', [parent, at])
      if (rows[0]?.made) made++
    }
  }
  return made
}
