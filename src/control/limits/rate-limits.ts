// How often a caller may come: three tiers of routes, each with a limit for one key and a larger one for all keys of its tenant. A
// key that is over its own limit uses up nothing of its tenant's, and no tenant anything of another's. Operators have limits of
// their own: neither tenants' traffic nor an absent Redis keeps them out.
import type { Principal } from '../auth/principal.ts'
import { createCounter, type Count, type Counter, type CounterDeps } from './counter.ts'

/** `relaxed`: routes that only read; `default`: those that change something; `aggressive`: those that set much in motion. */
export type Tier = 'relaxed' | 'default' | 'aggressive'

export interface Quota {
  max: number
  /** Whole seconds. */
  windowMs: number
}

export interface RateLimitSettings {
  /** For one key. Null: unlimited. */
  tiers: Record<Tier, Quota> | null
  /** What all keys of a tenant may, in terms of what one may. */
  tenantFactor: number
  /** Reading events by a cursor; for a tenant. */
  pull: Quota
  /** Wrong credentials from one address. */
  failedAuth: Quota
  /** While Redis is away each process counts by itself. */
  failOpen: boolean
}

export interface RateLimits {
  /** Counts a request; in the order of the counting, and none after one that is over its limit. */
  count(limit: Tier | 'pull', principal: Principal, isOperator: boolean): Promise<Count[]>
}

export function createRateLimits(settings: RateLimitSettings, deps: CounterDeps): RateLimits {
  const pull = createCounter({ name: 'pull', ...settings.pull }, deps, settings.failOpen)
  const tiers = settings.tiers && {
    relaxed: countersOf('relaxed', settings.tiers.relaxed, { settings, deps }),
    default: countersOf('default', settings.tiers.default, { settings, deps }),
    aggressive: countersOf('aggressive', settings.tiers.aggressive, { settings, deps }),
  }
  return {
    count: async (limit, { tenantId, name }, isOperator) => {
      if (limit === 'pull') return [await pull.add(keyOf(tenantId))]
      if (tiers === null) return []
      const { operator, key, tenant } = tiers[limit]
      if (isOperator) return [await operator.add(keyOf(tenantId, name))]
      const own = await key.add(keyOf(tenantId, name))
      return own.allowed ? [own, await tenant.add(keyOf(tenantId))] : [own]
    },
  }
}

/**
 * A burst that refills at a steady rate, as a window: it ends when the whole burst would be there again, and takes what comes at that
 * rate until then. Both are counts.
 */
export function burstQuota({ perSecond, burst }: { perSecond: number; burst: number }): Quota {
  const seconds = Math.max(1, Math.ceil(burst / perSecond))
  return { max: perSecond * seconds, windowMs: seconds * 1_000 }
}

interface TierCounters {
  operator: Counter
  key: Counter
  tenant: Counter
}

function countersOf(
  tier: Tier,
  { max, windowMs }: Quota,
  { settings: { failOpen, tenantFactor }, deps }: { settings: RateLimitSettings; deps: CounterDeps },
): TierCounters {
  return {
    operator: createCounter({ name: `${tier}-operator`, max, windowMs }, deps, true),
    key: createCounter({ name: `${tier}-key`, max, windowMs }, deps, failOpen),
    tenant: createCounter({ name: `${tier}-tenant`, max: max * tenantFactor, windowMs }, deps, failOpen),
  }
}

/** No two different ones come to the same. */
function keyOf(...parts: (string | null)[]): string {
  return JSON.stringify(parts)
}
