// Authentication as a list: each authenticator looks at the request for a credential of its own kind. The first that finds one
// decides, so several kinds work at once, and a credential that is wrong is never passed on to be accepted by another kind.
import assert from 'node:assert/strict'
import type { FastifyRequest } from 'fastify'
import { HubError } from '../../base/errors.ts'
import type { Principal, Scope } from './principal.ts'

export interface Authenticator {
  readonly name: string
  /**
   * Null when the request carries no credential of this kind. Throws `unauthenticated` for one that is not valid, `unavailable`
   * when that cannot be told now: never lets in because it could not ask.
   */
  authenticate(request: FastifyRequest): Promise<Principal | null>
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes without a scope. */
    principal: Principal | null
  }
}

/** Sets the request's principal, or throws `unauthenticated` or `forbidden`. */
export async function authenticate(
  request: FastifyRequest,
  authenticators: readonly Authenticator[],
  scope: Scope,
): Promise<void> {
  const principal = await firstPrincipal(request, authenticators)
  if (!principal) throw new HubError('unauthenticated', 'The request carries no credential that is accepted here.')
  request.principal = principal
  if (!principal.scopes.has(scope)) throw new HubError('forbidden', `This needs the scope ${scope}.`)
}

/** The caller of a route that has a scope. */
export function callerOf(request: FastifyRequest): Principal {
  assert(request.principal, 'a route without a scope has no caller')
  return request.principal
}

async function firstPrincipal(
  request: FastifyRequest,
  authenticators: readonly Authenticator[],
): Promise<Principal | null> {
  for (const authenticator of authenticators) {
    const principal = await authenticator.authenticate(request)
    if (principal) return principal
  }
  return null
}
