// Attempts that the hub itself cannot make now: a secret does not open, the settings cannot be read, or its proxy cannot be used. That
// says nothing about the receiver, so there is no attempt, no step of the schedule is used up, and neither breaker nor streak moves: the lane waits a
// little and is tried again, for as long as it takes. Each subscription's trouble is logged when it begins and when it is over.
import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { ClaimedLane } from '../store/lanes.ts'
import type { AttemptRow } from '../store/outcomes.ts'
import type { DispatchMetrics } from './metrics.ts'

export interface Postponed {
  /** Epoch ms: not before then. */
  until: number
}

/** From half of it to one and a half: what began together does not come back together. */
const WAIT_MS = 30_000
/** Subscriptions whose trouble is remembered, so that it is told once. */
const MAX_REMEMBERED = 10_000

export class Postponements {
  readonly #deps: { clock: Clock; log: Log; metrics: Pick<DispatchMetrics, 'postponed'>; random: () => number }
  readonly #told = new LRUCache<string, true>({ max: MAX_REMEMBERED })

  constructor(deps: { clock: Clock; log: Log; metrics: Pick<DispatchMetrics, 'postponed'>; random: () => number }) {
    this.#deps = deps
  }

  begin(lane: ClaimedLane, { reason, message }: { reason: string; message: string }): Postponed {
    const { clock, log, metrics, random } = this.#deps
    metrics.postponed.inc({ reason })
    if (!this.#told.has(lane.subscriptionId))
      log.error({ ...idsOf(lane), reason, err: message }, 'deliveries are postponed')
    this.#told.set(lane.subscriptionId, true)
    return { until: Math.ceil(clock.now() + WAIT_MS * (0.5 + random())) }
  }

  end(lane: ClaimedLane): void {
    if (this.#told.delete(lane.subscriptionId)) this.#deps.log.info(idsOf(lane), 'deliveries go on')
  }
}

export function isPostponed(end: AttemptRow | Postponed): end is Postponed {
  return 'until' in end
}

function idsOf({ tenantId, subscriptionId }: ClaimedLane): { tenant_id: string; subscription_id: string } {
  return { tenant_id: tenantId, subscription_id: subscriptionId }
}
