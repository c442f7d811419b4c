// Who asks: what every kind of authentication comes to. Routes know principals and scopes, never credentials.

export const SCOPES = ['subscriptions:read', 'subscriptions:write', 'events:read', 'events:ingest', 'admin'] as const

/** `admin` opens the operators' routes, which see all tenants; it is no tenant of its own. */
export type Scope = (typeof SCOPES)[number]

export interface Principal {
  /** Whose objects it sees. */
  tenantId: string
  scopes: ReadonlySet<Scope>
  /** For logs and the audit trail; never a credential. */
  name: string
}
