// The Prometheus registry that `/metrics` serves. Each stage defines its own metrics on it, by Prometheus conventions
// (base units, `_total` on counters), and never with a tenant or subscription as a label.
import { Gauge, Registry, collectDefaultMetrics } from '@prometheus-io/client'

export type { Registry }

/** A registry of its own for each hub, so that two hubs in one process (tests) do not share counters. */
export function createRegistry(options: { processMetrics: boolean }): Registry {
  const registry = new Registry()
  if (options.processMetrics) collectDefaultMetrics({ register: registry })
  return registry
}

/** Says what runs here, to be joined with everything else. */
export function buildInfo(registry: Registry, labels: { version: string; role: string }): void {
  const help = 'What runs here: always 1'
  const labelNames = ['version', 'role'] as const
  new Gauge({ name: 'hub_build_info', help, labelNames, registers: [registry] }).set(labels, 1)
}
