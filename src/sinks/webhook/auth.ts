// How a webhook shows its receiver who sends: the credentials of `sink.auth`, judged when they are registered, and as the header
// that carries them.
import type { Fault } from '../../base/errors.ts'
import type { WebhookAuth } from '../../event/subscription.ts'
import { nameFault } from './header-rules.ts'

/** What a schema cannot see. Paths are JSON pointers into the authentication. */
export function authFaults(auth: WebhookAuth): Fault[] {
  if (auth.kind !== 'api_key') return []
  const message = nameFault(auth.header)
  return message === null ? [] : [{ path: '/header', message }]
}

/** The name, in lower case, of the header that it sets; null: none. */
export function authHeaderName(auth: WebhookAuth): string {
  return auth.kind === 'api_key' ? auth.header.toLowerCase() : 'authorization'
}

/** That header's value, of opened credentials. */
export function authHeaderValue(auth: WebhookAuth): string {
  switch (auth.kind) {
    case 'bearer':
      return `Bearer ${auth.token}`
    case 'basic':
      return `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`
    case 'api_key':
      return auth.value
    default:
      return auth satisfies never
  }
}
