// How the connections are used, as it is in the moment in which somebody asks.
import { Gauge } from '@prometheus-io/client'
import type { Registry } from '../base/metrics.ts'
import type { Pool } from './pool.ts'

/** Defines the metrics of `pools`, by their names, on `registry`. */
export function poolMetrics(registry: Registry, pools: Readonly<Record<string, Pool>>) {
  const registers = [registry]
  const all = Object.entries(pools)
  return {
    connections: new Gauge({
      name: 'hub_database_connections',
      help: 'Open connections by what they do',
      labelNames: ['pool', 'state'] as const,
      registers,
      collect() {
        for (const [pool, { idleCount, totalCount }] of all) {
          this.set({ pool, state: 'idle' }, idleCount)
          this.set({ pool, state: 'in_use' }, totalCount - idleCount)
        }
      },
    }),
    most: new Gauge({
      name: 'hub_database_connections_max',
      help: 'Connections that may be open',
      labelNames: ['pool'] as const,
      registers,
      collect() {
        for (const [pool, { options }] of all) this.set({ pool }, options.max)
      },
    }),
    waiting: new Gauge({
      name: 'hub_database_waiting',
      help: 'Statements that wait for a connection',
      labelNames: ['pool'] as const,
      registers,
      collect() {
        for (const [pool, { waitingCount }] of all) this.set({ pool }, waitingCount)
      },
    }),
  }
}
