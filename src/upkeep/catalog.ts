// Keeps the catalog: counts what has arrived, and makes an example of each type that is new. In small steps, each a transaction of its own:
// a long one would hold back readers of the inbox.
import { catalogSamples, countIntoCatalog, saveExample } from '../store/catalog.ts'
import { structureOf } from '../event/structure.ts'
import type { Database } from '../store/pool.ts'
import type { Chore } from './upkeep.ts'

const EVERY_MS = 10_000
/** Some 50 ms of the database's time. */
const EVENTS_AT_ONCE = 5_000
/** One run then counts up to 250,000 events, 25,000 for each second between two runs; other chores wait for it. */
const MOST_STEPS = 50
/** Each may have 1 MiB of data. */
const SAMPLES_AT_ONCE = 16
const MOST_SAMPLES = 160

export function catalogChore(): Chore {
  return {
    name: 'catalog',
    everyMs: EVERY_MS,
    stepwise: true,
    run: async (db, _now, stopping) => {
      let events = 0
      for (let step = 0; step < MOST_STEPS && !stopping.aborted; step++) {
        const counted = await countIntoCatalog(db, EVENTS_AT_ONCE)
        events += counted
        if (counted < EVENTS_AT_ONCE) break
      }
      const examples = await makeExamples(db, stopping)
      // What happens all the time is no news; a new type is.
      return examples > 0 ? { events, examples } : null
    },
  }
}

async function makeExamples(db: Database, stopping: AbortSignal): Promise<number> {
  let made = 0
  while (made < MOST_SAMPLES && !stopping.aborted) {
    const samples = await catalogSamples(db, SAMPLES_AT_ONCE)
    for (const sample of samples) await saveExample(db, sample, structureOf(sample))
    made += samples.length
    if (samples.length < SAMPLES_AT_ONCE) break
  }
  return made
}
