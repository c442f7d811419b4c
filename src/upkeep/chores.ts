// The chores that are not about growth.
import { alignInbox } from '../store/pull.ts'
import { removeIdempotencyKeys } from '../store/idempotency.ts'
import { sweepLanes } from '../store/lanes.ts'
import {
  dropDeadLetterDays,
  dropStrayDeadLetters,
  findStrayDeadLetters,
  makeDeadLetterDays,
} from '../store/producer-dead-letters.ts'
import { removeExpiredSecrets } from '../store/subscriptions.ts'
import type { Chore } from './upkeep.ts'

const SWEEP_EVERY_MS = 60_000
const SECRETS_EVERY_MS = 10 * 60_000
/** Of what is removed row by row: some 100 ms of the database's time. */
const ROWS_AT_ONCE = 10_000
const ALIGN_EVERY_MS = 60_000
const DAY_MS = 24 * 3600 * 1000
/** By how much the clock of another replica may be behind ours. */
const CLOCK_SKEW_MS = 5 * 60_000

/** Finds lanes whose wake-up was lost. There should never be one: `onFound` counts them. */
export function sweepChore(onFound: (lanes: number) => void): Chore {
  return {
    name: 'sweep',
    everyMs: SWEEP_EVERY_MS,
    run: async (db) => {
      const lanes = await sweepLanes(db)
      onFound(lanes)
      return lanes > 0 ? { lanes } : null
    },
  }
}

/** Removes the old signing secrets whose overlap is over: on every replica's clock, for which they do not sign any more anyway. */
export function expiredSecretsChore(): Chore {
  return {
    name: 'expired_secrets',
    everyMs: SECRETS_EVERY_MS,
    stepwise: true,
    run: async (db, now, stopping) => {
      const before = new Date(now.getTime() - CLOCK_SKEW_MS)
      return await removeAll(stopping, async () => await removeExpiredSecrets(db, before, ROWS_AT_ONCE))
    },
  }
}

/** Removes idempotency keys that are not remembered any more. */
export function idempotencyChore({ everyMs }: { everyMs: number }): Chore {
  return {
    name: 'idempotency_keys',
    everyMs,
    stepwise: true,
    run: async (db, now, stopping) => {
      const before = new Date(now.getTime() - CLOCK_SKEW_MS)
      return await removeAll(stopping, async () => await removeIdempotencyKeys(db, before, ROWS_AT_ONCE))
    },
  }
}

/** Removes batch by batch until one is not full: what comes faster than one batch a run must not pile up. */
async function removeAll(stopping: AbortSignal, remove: () => Promise<number>): Promise<{ removed: number } | null> {
  let removed = 0
  while (!stopping.aborted) {
    const batch = await remove()
    removed += batch
    if (batch < ROWS_AT_ONCE) break
  }
  return removed > 0 ? { removed } : null
}

/** Takes up a database that was restored from a dump, so that readers go on with the cursors that they have: see `align_inbox`. */
export function alignChore(onAligned: () => void): Chore {
  return {
    name: 'align_inbox',
    everyMs: ALIGN_EVERY_MS,
    run: async (db) => {
      if (!(await alignInbox(db))) return null
      onAligned()
      return { aligned: true }
    },
  }
}

/** Makes the coming days' partitions of the producers' dead letters: the last ones before its own next run, and a day more. */
export function deadLetterDaysChore(options: { everyMs: number }): Chore {
  const days = Math.ceil(options.everyMs / DAY_MS) + 1
  return {
    name: 'dead_letter_days',
    everyMs: options.everyMs,
    run: async (db, now) => {
      const made = await makeDeadLetterDays(db, new Date(now.getTime() - CLOCK_SKEW_MS), days)
      return made > 0 ? { made } : null
    },
  }
}

/**
 * Drops the producers' dead letters that were seen longer ago than `retentionMs`, by whole days: so they are kept for up to a day more.
 * `onStrays` is called while there are some whose day has no partition; there should never be any.
 */
export function deadLetterPruneChore(options: { everyMs: number; retentionMs: number; onStrays: () => void }): Chore {
  return {
    name: 'dead_letter_prune',
    everyMs: options.everyMs,
    run: async (db, now) => {
      const before = new Date(now.getTime() - options.retentionMs)
      const dropped = await dropDeadLetterDays(db, before)
      const strays = await findStrayDeadLetters(db, before)
      if (strays.any && strays.allOver) await dropStrayDeadLetters(db)
      else if (strays.any) options.onStrays()
      return dropped > 0 ? { dropped } : null
    },
  }
}
