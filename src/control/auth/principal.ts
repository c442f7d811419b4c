// Who asks: what every kind of authentication comes to. Routes know principals and scopes, never credentials.

import type { Actor } from '../../event/actor.ts'

export const SCOPES = ['subscriptions:read', 'subscriptions:write', 'events:read', 'events:ingest', 'admin'] as const

/** `admin` opens the operators' routes, which see all tenants; it is no tenant of its own. */
export type Scope = (typeof SCOPES)[number]

/** Those that mean something without a tenant. */
export const TENANTLESS_SCOPES: readonly Scope[] = ['admin', 'events:ingest']

export interface Principal extends Actor {
  /** Whose objects it sees. Null: nobody's, so that only routes which are no tenant's are open to it. */
  tenantId: string | null
  /** Its credential belongs to that tenant: it brings in no other's events. */
  isConfined: boolean
  scopes: ReadonlySet<Scope>
}

/** One who acts for a tenant. */
export type TenantPrincipal = Principal & { tenantId: string }

export function isScope(text: unknown): text is Scope {
  return (SCOPES as readonly unknown[]).includes(text)
}
