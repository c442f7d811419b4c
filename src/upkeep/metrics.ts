// What the chores count.
import { Counter } from '@prometheus-io/client'
import type { Registry } from '../base/metrics.ts'

/** Defines the chores' metrics on `registry`. */
export function upkeepMetrics(registry: Registry) {
  const registers = [registry]
  return {
    sweptLanes: new Counter({ name: 'hub_swept_lanes_total', help: 'Lanes whose wake-up was lost', registers }),
  }
}
