// How many requests are under way at one time: what is more is turned away at once, before it takes memory or a connection to the
// database. One tenant gets a share only, so that slow requests of one leave room for all.

export interface InFlightLimits {
  total: number
  perTenant: number
}

export class InFlight {
  readonly #limits: InFlightLimits
  readonly #byTenant = new Map<string, number>()
  #total = 0

  constructor(limits: InFlightLimits) {
    this.#limits = limits
  }

  /** Whether there is room, and if not, for whom; one that got in has to `leave`. */
  enter(tenantId: string): 'in' | 'tenant_full' | 'full' {
    const own = this.#byTenant.get(tenantId) ?? 0
    if (own >= this.#limits.perTenant) return 'tenant_full'
    if (this.#total >= this.#limits.total) return 'full'
    this.#total++
    this.#byTenant.set(tenantId, own + 1)
    return 'in'
  }

  leave(tenantId: string): void {
    this.#total--
    const own = (this.#byTenant.get(tenantId) ?? 0) - 1
    if (own > 0) this.#byTenant.set(tenantId, own)
    else this.#byTenant.delete(tenantId)
  }
}
