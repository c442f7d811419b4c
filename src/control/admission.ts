// Whether a request gets to its route: who asks, whether they ask too often, and whether too much is under way already. What is
// refused here has cost little: no body is read, and no database is asked, but for the credential.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { HubError } from '../base/errors.ts'
import { authenticate, principalOf, type Authenticator } from './auth/authenticate.ts'
import type { Scope } from './auth/principal.ts'
import type { FailedLogins } from './limits/failed-logins.ts'
import { rateLimitHeaders, retryAfter } from './limits/headers.ts'
import { InFlight } from './limits/in-flight.ts'
import type { RateLimits, Tier } from './limits/rate-limits.ts'
import type { AuthFailures, HttpMetrics } from './metrics.ts'

/** How a route is limited; `ingest`: not by count, but by how many are under way. */
export type RouteLimit = Tier | 'pull' | 'ingest'

export interface AdmissionDeps {
  authenticators: readonly Authenticator[]
  rateLimits: RateLimits
  failedLogins: FailedLogins
}

interface Rule {
  access: Scope
  limit: RouteLimit
}

export type Admission = (request: FastifyRequest, reply: FastifyReply, rule: Rule) => Promise<void>

/** A body of 256 KiB each: 128 MiB at most, a quarter of it one tenant's. */
const REQUESTS = { total: 512, perTenant: 128 }
/** A body of 1.4 MiB each: 90 MiB at most. One service's key may send for all tenants. */
const INGESTS = { total: 64, perTenant: 48 }
/** Most of them only wait: a few KiB each, and no connection to the database. */
const PULLS = { total: 1024, perTenant: 64 }
const SOON_MS = 1_000

/** Sets the request's principal, and throws when it is refused. */
export function createAdmission(deps: AdmissionDeps, metrics: HttpMetrics): Admission {
  const requests = new InFlight(REQUESTS)
  const rooms: Partial<Record<RouteLimit, InFlight>> = { ingest: new InFlight(INGESTS), pull: new InFlight(PULLS) }
  return async (request, reply, rule) => {
    const refuse: Refuse = (by, error, resetMs) => {
      metrics.refused.inc({ tier: by })
      reply.header('retry-after', retryAfter(resetMs))
      throw error
    }
    const denied = await identify(request, { deps, rule, refuse, failures: metrics.authFailures })
    await count(request, reply, { deps, rule, refuse })
    if (denied) throw denied
    if (rule.access === 'admin') return
    takeRoom(request, reply, { room: rooms[rule.limit] ?? requests, refuse })
  }
}

type Refuse = (by: string, error: HubError, resetMs: number) => never

interface Step {
  deps: AdmissionDeps
  rule: Rule
  refuse: Refuse
}

interface Identification extends Step {
  failures: AuthFailures
}

/** Gives the error for a caller who is known but may not do this: to be told so after having been counted. */
async function identify(
  request: FastifyRequest,
  { deps, rule, refuse, failures }: Identification,
): Promise<HubError | null> {
  const { authenticators, failedLogins } = deps
  const blockedMs = failedLogins.blockedFor(request)
  if (blockedMs > 0) {
    const error = new HubError('rate_limited', 'Too many wrong credentials came from this address.')
    refuse('failed_auth', error, blockedMs)
  }
  try {
    await authenticate(request, rule.access, { authenticators, failures })
    failedLogins.succeeded(request)
    return null
  } catch (error) {
    if (error instanceof HubError && error.code === 'unauthenticated') await failedLogins.failed(request)
    if (error instanceof HubError && error.code === 'forbidden' && request.principal) return error
    throw error
  }
}

async function count(request: FastifyRequest, reply: FastifyReply, { deps, rule, refuse }: Step): Promise<void> {
  if (rule.limit === 'ingest') return
  const caller = principalOf(request)
  const isOperator = rule.access === 'admin' && caller.scopes.has('admin')
  const counts = await deps.rateLimits.count(rule.limit, caller, isOperator)
  reply.headers(rateLimitHeaders(counts))
  const over = counts.find(({ allowed }) => !allowed)
  if (!over) return
  const { name, max, windowMs } = over.limit
  const error = new HubError('rate_limited', `The limit ${name} is ${max} requests in ${windowMs / 1_000} s.`)
  refuse(rule.limit, error, over.resetMs)
}

function takeRoom(request: FastifyRequest, reply: FastifyReply, given: { room: InFlight; refuse: Refuse }): void {
  const { tenantId, name } = principalOf(request)
  const owner = tenantId ?? name
  switch (given.room.enter(owner)) {
    case 'in':
      return void reply.raw.once('close', () => given.room.leave(owner))
    case 'tenant_full':
      return given.refuse('in_flight', new HubError('rate_limited', 'Too many requests are under way.'), SOON_MS)
    case 'full':
      return given.refuse('in_flight', new HubError('unavailable', 'The hub has all hands full.'), SOON_MS)
  }
}
