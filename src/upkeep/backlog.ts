// What is measured of the database for all replicas: by the one that does the chores, so that adding up the replicas adds up nothing
// twice. One that no longer does them shows nothing, rather than what was true once.
import { Gauge } from '@prometheus-io/client'
import type { Clock } from '../base/clock.ts'
import type { Registry } from '../base/metrics.ts'
import { BACKLOG_STATES, countBacklog, countBreakers } from '../store/backlog.ts'
import type { Chore } from './upkeep.ts'

const EVERY_MS = 15_000
/** What one look reads at most: a fraction of a second's work. */
const MOST_DELIVERIES = 1_000_000

export interface BacklogWatch {
  chore: Chore
  /** To be called when another replica may be measuring. */
  forget: () => void
}

/** Defines the metrics on `registry`. */
export function watchBacklog({ registry, clock }: { registry: Registry; clock: Clock }): BacklogWatch {
  const registers = [registry]
  const deliveries = new Gauge({
    name: 'hub_backlog_deliveries',
    help: `Unfinished deliveries by state, up to ${MOST_DELIVERIES} in all; of the whole hub, told only by the replica that does the chores`,
    labelNames: ['state'] as const,
    registers,
  })
  const oldest = new Map<string, number>()
  const age = new Gauge({
    name: 'hub_backlog_oldest_age_seconds',
    help: 'Age of the oldest unfinished delivery by state; of the whole hub, told only by the replica that does the chores',
    labelNames: ['state'] as const,
    registers,
    collect() {
      this.reset()
      for (const [state, at] of oldest) this.set({ state }, at === 0 ? 0 : Math.max(0, (clock.now() - at) / 1000))
    },
  })
  const breakers = new Gauge({
    name: 'hub_breakers',
    help: 'Breakers that are not closed; of the whole hub, told only by the replica that does the chores',
    labelNames: ['state'] as const,
    registers,
  })
  const chore: Chore = {
    name: 'backlog',
    everyMs: EVERY_MS,
    run: async (db) => {
      const found = new Map((await countBacklog(db, MOST_DELIVERIES)).map((each) => [each.state, each]))
      for (const state of BACKLOG_STATES) {
        deliveries.set({ state }, found.get(state)?.deliveries ?? 0)
        oldest.set(state, found.get(state)?.oldest.getTime() ?? 0)
      }
      const { open, halfOpen } = await countBreakers(db)
      breakers.set({ state: 'open' }, open)
      breakers.set({ state: 'half_open' }, halfOpen)
      return null
    },
  }
  const forget = (): void => {
    oldest.clear()
    for (const gauge of [deliveries, age, breakers]) gauge.reset()
  }
  return { chore, forget }
}
