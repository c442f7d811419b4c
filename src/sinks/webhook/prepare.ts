// What all requests to one destination have in common, worked out once for as long as its opened settings are kept: the URL, the
// subscription's own headers and those of its authentication. What registration has checked is checked again: stored settings may be
// older than the rules.
import type { SinkSettings } from '../../event/subscription.ts'
import type { Destination } from '../sink.ts'
import { callFault, type GuardOptions } from './address-guard.ts'
import { authHeaderName, authHeaderValue, clientIdentity, tokenGrant } from './auth.ts'
import type { ClientIdentity } from './client-certificate.ts'
import { REFUSED, failed, type Failed } from './failures.ts'
import { headerFault, headerText } from './header-rules.ts'
import type { TokenGrant } from './tokens.ts'

export interface Prepared {
  url: URL
  /** Names in lower case. */
  headers: Record<string, string>
  /** How the token is had that goes with each request; null: none does. */
  grant: TokenGrant | null
  /** What the connection shows; null: nothing. */
  identity: ClientIdentity | null
}

export interface PreparationOptions extends GuardOptions {
  userAgent: string
}

/** A function that prepares each destination once. */
export function createPreparation(options: PreparationOptions): (destination: Destination) => Prepared | Failed {
  const known = new WeakMap<Destination, Prepared | Failed>()
  return (destination) => {
    const found = known.get(destination) ?? prepare(destination, options)
    known.set(destination, found)
    return found
  }
}

function prepare({ sink, tenantId }: Destination, options: PreparationOptions): Prepared | Failed {
  const url = callable(sink.url, options)
  if ('kind' in url) return url
  const headers = ownHeaders(sink)
  if (!headers) return failed('invalid_destination', "One of the subscription's own headers cannot be sent.")
  const prepared = { url, headers, grant: null, identity: null }
  // Over plain http nobody would be shown anything, and everybody could read along.
  if (sink.auth?.kind === 'mtls' && url.protocol !== 'https:')
    return failed('invalid_destination', 'A client certificate needs an https URL.')
  if (sink.auth?.kind === 'mtls') return { ...prepared, identity: clientIdentity(sink.auth) }
  if (sink.auth?.kind !== 'oauth2') return prepared
  const tokenUrl = callable(sink.auth.token_url, options)
  if ('kind' in tokenUrl) return { ...tokenUrl, detail: `Of the token endpoint: ${tokenUrl.detail}` }
  const grant = tokenGrant(sink.auth, { url: tokenUrl, tenantId, userAgent: options.userAgent })
  return { ...prepared, grant }
}

function callable(text: string, options: GuardOptions): URL | Failed {
  const url = URL.parse(text)
  const fault = url ? callFault(url, options) : 'unusable'
  if (fault === 'refused') return failed('refused_address', REFUSED)
  return url && !fault ? url : failed('invalid_destination', 'The URL cannot be called.')
}

/** Null when one must not be sent. Which one is not said: a value may be secret, and a stored name may be anything. */
function ownHeaders({ headers, auth }: SinkSettings): Record<string, string> | null {
  const own = Object.entries(headers).map(([name, header]) => ({ name, value: headerText(header) }))
  const taken = auth ? authHeaderName(auth) : null
  // Where the value is still to be had, its place is taken all the same.
  if (auth && taken !== null) own.push({ name: taken, value: authHeaderValue(auth) ?? '' })
  const checked = new Map<string, string>()
  for (const { name, value } of own) {
    if (headerFault(name, value) !== null || checked.has(name.toLowerCase())) return null
    checked.set(name.toLowerCase(), value)
  }
  return Object.fromEntries(checked)
}
