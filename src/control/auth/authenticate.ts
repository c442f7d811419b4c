// Authentication as a list: each authenticator looks at the request for a credential of its own kind. The first that finds one
// decides, so several kinds work at once, and a credential that is wrong is never passed on to be accepted by another kind.
import assert from 'node:assert/strict'
import type { FastifyRequest } from 'fastify'
import { HubError } from '../../base/errors.ts'
import type { AuthFailures } from '../metrics.ts'
import { TENANTLESS_SCOPES, type Principal, type Scope, type TenantPrincipal } from './principal.ts'

export interface Authenticator {
  /** `api_key`, `jwt`, …: a label of metrics. */
  readonly name: string
  /**
   * Null when the request carries no credential of this kind. Throws `unauthenticated` for one that is not valid, `forbidden` when
   * it may not do what `scope` stands for, `unavailable` when that cannot be told now: never lets in because it could not ask.
   */
  authenticate(request: FastifyRequest, scope: Scope): Promise<Principal | null>
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes without a scope. */
    principal: Principal | null
  }
}

export interface AuthenticationDeps {
  authenticators: readonly Authenticator[]
  failures: AuthFailures
}

/** Sets the request's principal, or throws `unauthenticated`, `forbidden` or `unavailable`. */
export async function authenticate(request: FastifyRequest, scope: Scope, deps: AuthenticationDeps): Promise<void> {
  let kind = 'none'
  try {
    for (const authenticator of deps.authenticators) {
      const principal = await authenticator.authenticate(request, scope).catch((error: unknown) => {
        kind = authenticator.name
        throw error
      })
      if (!principal) continue
      kind = authenticator.name
      request.principal = principal
      return permit(principal, scope)
    }
    throw new HubError('unauthenticated', 'The request carries no credential that is accepted here.')
  } catch (error) {
    deps.failures.inc({ kind, reason: error instanceof HubError ? error.code : 'unavailable' })
    throw error
  }
}

/** Who asks, on a route that has a scope. */
export function principalOf(request: FastifyRequest): Principal {
  assert(request.principal, 'a route without a scope has no caller')
  return request.principal
}

/** The caller of a tenant's route. */
export function callerOf(request: FastifyRequest): TenantPrincipal {
  const principal = principalOf(request)
  assert(isTenantPrincipal(principal), 'a route that needs no tenant has none')
  return principal
}

function permit(principal: Principal, scope: Scope): void {
  if (!principal.scopes.has(scope)) throw new HubError('forbidden', `This needs the scope ${scope}.`)
  if (isTenantPrincipal(principal) || TENANTLESS_SCOPES.includes(scope)) return
  throw new HubError('forbidden', 'The credential belongs to no tenant, and this is for tenants.')
}

function isTenantPrincipal(principal: Principal): principal is TenantPrincipal {
  return principal.tenantId !== null
}
