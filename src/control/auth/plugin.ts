// The platform's authorization service: it is asked about every request, with the caller's own bearer token, and decides. Only a 2xx
// with `authorized: true` lets in; a refusal is passed on; and when it cannot be reached, or answers what was not agreed, nobody
// gets in. The answer is about that very token, so what the token says of itself counts from then on: the subject and the tenant.
import type { FastifyRequest } from 'fastify'
import type { JWTPayload } from 'jose'
import { request as post, type Dispatcher } from 'undici'
import { HubError, messageOf } from '../../base/errors.ts'
import type { Troubles } from '../../base/troubles.ts'
import type { Authenticator } from './authenticate.ts'
import { bearerToken, uncheckedClaims } from './bearer.ts'
import { callerIdOf, subjectOf, tenantOf } from './claims.ts'
import type { Scope } from './principal.ts'

export interface PluginSettings {
  /** A URL; the service's path is put behind it. */
  address: string
  tenantClaim: string
  /** Of callers whose token names none. */
  defaultTenantId: string
}

export interface PluginDeps {
  troubles: Troubles
  /** Bounds what an answer may hold. */
  dispatcher: Dispatcher
}

const ANSWER_MS = 3_000
/** The subject of a token that says nothing of itself. */
const ANYBODY = 'streaming-hub'
const SERVICE_AWAY = 'the authorization service gives no answer that can be used: nobody gets in by it'

/** Takes every bearer token that comes to it for its own. */
export function pluginAuthenticator(settings: PluginSettings, deps: PluginDeps): Authenticator {
  const url = `${settings.address.replace(/\/+$/, '')}/v1/authorize`
  return {
    name: 'plugin',
    authenticate: async (request, scope) => {
      const token = bearerToken(request)
      if (token === null) return null
      const claims: JWTPayload = uncheckedClaims(token) ?? {}
      const subject = subjectOf(claims)
      await authorize({ url, token, question: { sub: subject ?? ANYBODY, ...wish(scope, request) } }, deps)
      const named = tenantOf(claims, settings.tenantClaim)
      return {
        tenantId: named ?? settings.defaultTenantId,
        isConfined: named !== null,
        scopes: new Set([scope]),
        kind: 'plugin',
        id: callerIdOf(claims, token),
        name: subject ?? 'a token',
      }
    },
  }
}

/** `subscriptions:read` is the resource `subscriptions` and the action `read`; operators' routes are `admin`, `read` or `write`. */
function wish(scope: Scope, { method }: FastifyRequest): { resource: string; action: string } {
  const [resource = scope, action = method === 'GET' || method === 'HEAD' ? 'read' : 'write'] = scope.split(':')
  return { resource, action }
}

interface Authorization {
  url: string
  token: string
  question: { sub: string; resource: string; action: string }
}

/** Resolves when the service lets in; throws `unauthenticated`, `forbidden` or `unavailable`. */
async function authorize({ url, token, question }: Authorization, { dispatcher, troubles }: PluginDeps): Promise<void> {
  const verdict = await ask({ url, token, question }, dispatcher).catch((error: unknown) => {
    troubles.raise(SERVICE_AWAY, messageOf(error))
    throw new HubError('unavailable', 'The authorization service cannot be asked at the moment.', { cause: error })
  })
  troubles.clear(SERVICE_AWAY)
  if (verdict === 'unauthenticated') throw new HubError('unauthenticated', 'The token is not valid.')
  if (verdict === 'forbidden') throw new HubError('forbidden', 'The authorization service does not allow this.')
}

async function ask(
  { url, token, question }: Authorization,
  dispatcher: Dispatcher,
): Promise<'authorized' | 'unauthenticated' | 'forbidden'> {
  const { statusCode, body } = await post(url, {
    dispatcher,
    method: 'POST',
    headers: { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify(question),
    signal: AbortSignal.timeout(ANSWER_MS),
  })
  const text = await body.text()
  if (statusCode === 401) return 'unauthenticated'
  if (statusCode === 403) return 'forbidden'
  if (statusCode < 200 || statusCode > 299) throw new Error(`it answers ${statusCode}`)
  const { authorized } = parsed(text)
  if (typeof authorized !== 'boolean') throw new Error('its answer holds no verdict')
  return authorized ? 'authorized' : 'forbidden'
}

function parsed(text: string): { authorized?: unknown } {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
