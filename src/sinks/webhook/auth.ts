// How a webhook shows its receiver who sends: the credentials of `sink.auth`, judged when they are registered, and made ready to be
// sent.
import { createHash } from 'node:crypto'
import { tokenRequest } from '../../base/client-credentials.ts'
import type { Fault } from '../../base/errors.ts'
import type { WebhookAuth } from '../../event/subscription.ts'
import { urlFaults, type GuardOptions } from './address-guard.ts'
import { identityFaults, type ClientIdentity } from './client-certificate.ts'
import { nameFault } from './header-rules.ts'
import type { TokenGrant } from './tokens.ts'

/** What a schema cannot see, at `now` (epoch ms). Paths are JSON pointers into the authentication. */
export function authFaults(auth: WebhookAuth, options: GuardOptions & { now: number }): Fault[] {
  if (auth.kind === 'mtls') {
    return identityFaults(clientIdentity(auth), options.now).map(({ of, message }) => ({ path: PLACES[of], message }))
  }
  if (auth.kind === 'oauth2')
    return urlFaults(auth.token_url, options).map((message) => ({ path: '/token_url', message }))
  const message = auth.kind === 'api_key' ? nameFault(auth.header) : null
  return message === null ? [] : [{ path: '/header', message }]
}

const PLACES = { certificate: '/certificate', privateKey: '/private_key', authorities: '/ca' } as const

/** The name, in lower case, of the header that it sets; null: none. */
export function authHeaderName(auth: WebhookAuth): string | null {
  if (auth.kind === 'mtls') return null
  return auth.kind === 'api_key' ? auth.header.toLowerCase() : 'authorization'
}

/** That header's value, of opened credentials; null where there is none, or it is a token that has to be had first. */
export function authHeaderValue(auth: WebhookAuth): string | null {
  switch (auth.kind) {
    case 'bearer':
      return bearer(auth.token)
    case 'basic':
      return `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`
    case 'api_key':
      return auth.value
    case 'oauth2':
    case 'mtls':
      return null
    default:
      return auth satisfies never
  }
}

export function clientIdentity(auth: Extract<WebhookAuth, { kind: 'mtls' }>): ClientIdentity {
  return { certificate: auth.certificate, privateKey: auth.private_key, authorities: auth.ca ?? null }
}

export function bearer(token: string): string {
  return `Bearer ${token}`
}

/** How a token of `auth` is had from its endpoint, for deliveries of `tenantId`. */
export function tokenGrant(
  auth: Extract<WebhookAuth, { kind: 'oauth2' }>,
  sender: { url: URL; tenantId: string; userAgent: string },
): TokenGrant {
  const { token_url, client_id: clientId, client_secret: clientSecret, scope = null, audience = null } = auth
  const { auth_method: authMethod = 'client_secret_basic' } = auth
  const parts = [sender.tenantId, token_url, clientId, clientSecret, scope, audience, authMethod]
  const { headers, body } = tokenRequest({ clientId, clientSecret, scope, audience, authMethod })
  return {
    key: createHash('sha256').update(JSON.stringify(parts)).digest('base64'),
    url: sender.url,
    headers: { ...headers, 'user-agent': sender.userAgent },
    body: Buffer.from(body),
  }
}
