// The chores that there are.
import { sweepLanes } from '../store/lanes.ts'
import { makePartitions } from '../store/partitions.ts'
import type { Chore } from './upkeep.ts'

const SWEEP_EVERY_MS = 60_000

/** Makes the coming weeks' partitions before anything is written to them. */
export function partitionChore(options: { everyMs: number; weeksAhead: number }): Chore {
  return {
    name: 'partitions',
    everyMs: options.everyMs,
    run: async (client, now) => {
      const made = await makePartitions(client, now, options.weeksAhead)
      return made > 0 ? { made } : null
    },
  }
}

/** Finds lanes whose wake-up was lost. There should never be one: `onFound` counts them. */
export function sweepChore(onFound: (lanes: number) => void): Chore {
  return {
    name: 'sweep',
    everyMs: SWEEP_EVERY_MS,
    run: async (client) => {
      const lanes = await sweepLanes(client)
      onFound(lanes)
      return lanes > 0 ? { lanes } : null
    },
  }
}
