// The chores that keep what is stored bounded: weeks made ahead, weeks dropped when retention says so, and a guard that says in words,
// once, what will not stay well by itself and who is to blame.
import { Gauge } from '@prometheus-io/client'
import type { Registry } from '../base/metrics.ts'
import type { Troubles } from '../base/troubles.ts'
import { hotTables, partitionStates, xminHolders } from '../store/growth.ts'
import type { PartitionState, TableState, XminHolder } from '../store/growth.ts'
import {
  deleteOldReplays,
  deleteStrays,
  dropWeek,
  makePartitions,
  WEEKLY_TABLES,
  weeksOverBy,
} from '../store/partitions.ts'
import type { WeeklyTable } from '../store/partitions.ts'
import type { Database } from '../store/pool.ts'
import type { Chore } from './upkeep.ts'

const GUARD_EVERY_MS = 60_000
const COUNT_UP_TO = 10_000
/** A transaction that lasts so long, or before so many others, holds back vacuum and the pull cursor. No statement of ours takes a tenth of it. */
const OLD_SECONDS = 600
const OLD_TRANSACTIONS = 1_000_000
/** Fewer dead rows are everyday; so many, and more than are alive, mean that vacuum does not keep up. */
const MANY_DEAD_ROWS = 50_000
/** A table that takes more than a page for each of its rows was once much fuller, and each scan of it pays for that. */
const LARGE_BYTES = 64 << 20
const PAGE_BYTES = 8192
/** Without retention they only grow: five years. */
const MANY_WEEKS = 260
/** Partitions that may be there beside those within the horizon and those ahead: this week's, last week's, and ones that are still needed. */
const SPARE_WEEKS = 8
const WEEK_MS = 7 * 24 * 3_600_000

/** What retention is about; counts go when nothing looks back on them any more. */
const KEPT = WEEKLY_TABLES.filter((table) => table !== 'outcome_hour')

/** Makes the coming weeks' partitions before anything is written to them. */
export function partitionChore(options: { everyMs: number; weeksAhead: number }): Chore {
  return {
    name: 'partitions',
    everyMs: options.everyMs,
    stepwise: true,
    run: async (db, now) => {
      const made = await makePartitions(db, now, options.weeksAhead)
      return made > 0 ? { made } : null
    },
  }
}

/**
 * Drops the weeks that were over `horizonMs` ago, as far as no unfinished delivery needs them, and deletes what is as old and has no week of
 * its own. What others hold just now is left for the next time, which is soon.
 */
export function retentionChore(options: { everyMs: number; horizonMs: number }): Chore {
  return {
    name: 'retention',
    everyMs: options.everyMs,
    stepwise: true,
    run: async (db, now, stopping) => {
      const before = new Date(now.getTime() - options.horizonMs)
      const done = { dropped: 0, needed: 0, strays: 0, replays: 0 }
      for (const table of KEPT) await dropOld(db, { table, before, stopping, done })
      if (stopping.aborted) return done
      done.replays = await allOf(() => deleteOldReplays(db, before), stopping)
      return done.dropped + done.strays + done.replays > 0 ? done : null
    },
  }
}

/** Drops the hours that no subscription's health looks back on any more: they are counts, made of what retention keeps or not. */
export function healthHoursChore(options: { everyMs: number; windowMs: number }): Chore {
  return {
    name: 'health hours',
    everyMs: options.everyMs,
    stepwise: true,
    run: async (db, now, stopping) => {
      const before = new Date(now.getTime() - options.windowMs)
      const done = { dropped: 0, needed: 0, strays: 0 }
      await dropOld(db, { table: 'outcome_hour', before, stopping, done })
      return done.dropped + done.strays > 0 ? done : null
    },
  }
}

async function dropOld(
  db: Database,
  old: {
    table: WeeklyTable
    before: Date
    stopping: AbortSignal
    done: { dropped: number; needed: number; strays: number }
  },
): Promise<void> {
  const { table, before, stopping, done } = old
  for (const week of await weeksOverBy(db, table, before)) {
    if (stopping.aborted) return
    done[(await dropWeek(db, table, week)) ? 'dropped' : 'needed']++
  }
  done.strays += await allOf(() => deleteStrays(db, table, before), stopping)
}

/** Takes one step after the other until one has nothing left to do. */
async function allOf(step: () => Promise<number>, stopping: AbortSignal): Promise<number> {
  let sum = 0
  for (let done = -1; done !== 0 && !stopping.aborted; sum += done) done = await step()
  return sum
}

export interface Growth {
  holders: readonly XminHolder[]
  tables: readonly TableState[]
  partitions: readonly PartitionState[]
}

/** Looks at the whole, and tells what is found: once when it is found, and once when it is over. */
export function guardChore(options: {
  /** Null: nothing is dropped. */
  horizonMs: number | null
  weeksAhead: number
  troubles: Troubles
  metrics: ReturnType<typeof growthMetrics>
}): Chore {
  const told = new Set<string>()
  return {
    name: 'guard',
    everyMs: GUARD_EVERY_MS,
    run: async (db, now) => {
      const growth = await look(db, now)
      const findings = findingsOf(growth, options)
      for (const [subject, reason] of findings) options.troubles.raise(subject, reason)
      for (const subject of told) if (!findings.has(subject)) options.troubles.clear(subject)
      told.clear()
      for (const subject of findings.keys()) told.add(subject)
      options.metrics.show(growth)
      return null
    },
  }
}

async function look(db: Database, now: Date): Promise<Growth> {
  const holders = await xminHolders(db)
  const tables = await hotTables(db)
  return { holders, tables, partitions: await partitionStates(db, now, COUNT_UP_TO) }
}

/** What is not well, as subject and reason. */
export function findingsOf(
  { holders, tables, partitions }: Growth,
  { horizonMs, weeksAhead }: { horizonMs: number | null; weeksAhead: number },
): Map<string, string> {
  const found = new Map<string, string>()
  const old = holders.filter((h) => (h.seconds ?? 0) >= OLD_SECONDS || h.transactions >= OLD_TRANSACTIONS)
  if (old.length > 0) found.set('vacuum and the pull cursor are held back', old.map(inWords).join('; '))
  for (const { table, liveRows, deadRows, bytes } of tables) {
    if (deadRows >= MANY_DEAD_ROWS && deadRows > liveRows)
      found.set(`vacuum of ${table} does not keep up`, `${deadRows} dead rows beside ${liveRows} that live`)
    if (bytes >= LARGE_BYTES && bytes > PAGE_BYTES * Math.max(1, liveRows))
      found.set(`${table} is bloated`, `${Math.round(bytes / (1 << 20))} MiB for ${liveRows} rows`)
  }
  const most = horizonMs === null ? MANY_WEEKS : Math.ceil(horizonMs / WEEK_MS) + weeksAhead + SPARE_WEEKS
  for (const { table, partitions: count, isAhead, defaultRows } of partitions) {
    if (count > most) found.set(`${table} has unusually many partitions`, `${count}, and at most ${most} are expected`)
    if (!isAhead) found.set(`${table} has no partition for next week`, 'they could not be made ahead')
    if (defaultRows > 0) found.set(`rows of ${table} lie in no week of their own`, atLeast(defaultRows))
  }
  return found
}

function inWords({ culprit, seconds, transactions }: XminHolder): string {
  return `${culprit}${seconds === null ? '' : ` for ${Math.round(seconds)} s`}, ${transactions} transactions ago`
}

function atLeast(rows: number): string {
  return rows >= COUNT_UP_TO ? `${COUNT_UP_TO} or more: ids with an odd time` : `${rows}: ids with an odd time`
}

/** What the replica that does the chores tells of the database; the others tell nothing. */
export function growthMetrics(registry: Registry) {
  const registers = [registry]
  const labelNames = ['table'] as const
  const xmin = new Gauge({
    name: 'hub_database_oldest_transaction_seconds',
    help: 'Age of the oldest transaction that holds back vacuum; told by the replica that does the chores, as the others of its kind',
    registers,
  })
  const dead = new Gauge({ name: 'hub_table_dead_rows', help: 'Dead rows of the hot tables', labelNames, registers })
  const bytes = new Gauge({ name: 'hub_table_bytes', help: 'Size of the hot tables', labelNames, registers })
  const partitions = new Gauge({ name: 'hub_partitions', help: 'Weekly partitions by table', labelNames, registers })
  const strays = new Gauge({
    name: 'hub_default_partition_rows',
    help: 'Rows that lie in no week of their own, counted up to 10000',
    labelNames,
    registers,
  })
  return {
    show: (growth: Growth): void => {
      xmin.set(Math.max(0, ...growth.holders.map(({ seconds }) => seconds ?? 0)))
      for (const { table, deadRows, bytes: size } of growth.tables) {
        dead.set({ table }, deadRows)
        bytes.set({ table }, size)
      }
      for (const { table, partitions: count, defaultRows } of growth.partitions) {
        partitions.set({ table }, count)
        strays.set({ table }, defaultRows)
      }
    },
    /** Another replica tells them now. */
    forget: (): void => {
      for (const gauge of [xmin, dead, bytes, partitions, strays]) gauge.reset()
    },
  }
}
