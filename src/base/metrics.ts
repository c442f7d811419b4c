// The Prometheus registry that `/metrics` serves. Each stage defines its own metrics on it, by Prometheus conventions
// (base units, `_total` on counters), and never with a tenant or subscription as a label.
import { Registry, collectDefaultMetrics } from '@prometheus-io/client'

export type { Registry }

/** A registry of its own for each hub, so that two hubs in one process (tests) do not share counters. */
export function createRegistry(options: { processMetrics: boolean }): Registry {
  const registry = new Registry()
  if (options.processMetrics) collectDefaultMetrics({ register: registry })
  return registry
}
