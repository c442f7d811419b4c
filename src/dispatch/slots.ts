// How many attempts a process may have in the air, and how many of them one tenant may have. An attempt that has lasted a while
// is only waiting for its receiver: it costs a socket, no processor, and so it moves from the few quick slots to the many slow
// ones. That, and a share for each tenant in both, is why slow receivers of one tenant never keep the others from being served.
import type { Clock } from '../base/clock.ts'

export interface SlotLimits {
  /** Attempts in the air that are younger than SLOW_AFTER_MS. */
  quick: number
}

/** From when on an attempt in the air is taken for slow. */
export const SLOW_AFTER_MS = 100
/** Slow slots for each quick one: with the default of 128 quick ones, 2048 sockets that wait. */
const SLOW_PER_QUICK = 16
/** Of the quick slots a tenant gets at most a quarter, of the slow ones an eighth: four such tenants never take them all at once for long. */
const QUICK_SHARE = 4
const SLOW_SHARE = 8
/** Bodies that are held in memory; beyond it nothing more is claimed. 256 MiB = 256 events of the largest size. */
const MAX_BYTES = 256 << 20

export interface Slot {
  /** A new attempt begins in this slot: it is quick again. */
  restart(): void
  leave(): void
}

interface Taken {
  tenantId: string
  since: number
  bytes: number
}

export class Slots {
  readonly #clock: Clock
  readonly #limits: SlotLimits
  readonly #taken = new Set<Taken>()
  #bytes = 0

  constructor(clock: Clock, limits: SlotLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** Takes a slot for a lane of `tenantId` whose jobs hold `bytes` of data. Never refuses: `room` is asked before claiming. */
  enter(tenantId: string, bytes: number): Slot {
    const taken: Taken = { tenantId, since: this.#clock.now(), bytes }
    this.#taken.add(taken)
    this.#bytes += bytes
    return {
      restart: () => (taken.since = this.#clock.now()),
      leave: () => {
        if (this.#taken.delete(taken)) this.#bytes -= bytes
      },
    }
  }

  get size(): number {
    return this.#taken.size
  }

  /** How many more lanes may be claimed now, and for which tenants none. */
  room(): { lanes: number; cappedTenants: string[] } {
    const quickSince = this.#clock.now() - SLOW_AFTER_MS
    const tenants = new Map<string, { quick: number; slow: number }>()
    let quick = 0
    for (const { tenantId, since } of this.#taken) {
      const used = tenants.get(tenantId) ?? { quick: 0, slow: 0 }
      tenants.set(tenantId, used)
      if (since > quickSince) quick++
      used[since > quickSince ? 'quick' : 'slow']++
    }
    const { quick: limit } = this.#limits
    const full = this.#bytes >= MAX_BYTES || this.#taken.size - quick >= limit * SLOW_PER_QUICK
    const capped = (used: { quick: number; slow: number }): boolean =>
      used.quick >= Math.ceil(limit / QUICK_SHARE) || used.slow >= Math.ceil((limit * SLOW_PER_QUICK) / SLOW_SHARE)
    return {
      lanes: full ? 0 : Math.max(0, limit - quick),
      cappedTenants: [...tenants].filter(([, used]) => capped(used)).map(([tenantId]) => tenantId),
    }
  }
}
