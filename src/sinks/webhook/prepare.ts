// What all requests to one destination have in common, worked out once for as long as its opened settings are kept: the URL, the
// subscription's own headers and those of its authentication. What registration has checked is checked again: stored settings may be
// older than the rules.
import type { Destination } from '../sink.ts'
import { callFault, type GuardOptions } from './address-guard.ts'
import { authHeaderName, authHeaderValue } from './auth.ts'
import { REFUSED, failed, type Failed } from './failures.ts'
import { headerFault, headerText } from './header-rules.ts'

export interface Prepared {
  url: URL
  /** Names in lower case. */
  headers: Record<string, string>
}

/** A function that prepares each destination once. */
export function createPreparation(options: GuardOptions): (destination: Destination) => Prepared | Failed {
  const known = new WeakMap<Destination, Prepared | Failed>()
  return (destination) => {
    const found = known.get(destination) ?? prepare(destination, options)
    known.set(destination, found)
    return found
  }
}

function prepare({ sink }: Destination, options: GuardOptions): Prepared | Failed {
  const url = URL.parse(sink.url)
  const fault = url ? callFault(url, options) : 'unusable'
  if (fault === 'refused') return failed('refused_address', REFUSED)
  if (!url || fault) return failed('invalid_destination', 'The URL cannot be called.')
  const headers = new Map<string, string>()
  const own = Object.entries(sink.headers).map(([name, header]) => ({ name, value: headerText(header) }))
  if (sink.auth) own.push({ name: authHeaderName(sink.auth), value: authHeaderValue(sink.auth) })
  for (const { name, value } of own) {
    // The detail names none: a value may be secret, and a stored name may be anything.
    if (headerFault(name, value) !== null || headers.has(name.toLowerCase()))
      return failed('invalid_destination', "One of the subscription's own headers cannot be sent.")
    headers.set(name.toLowerCase(), value)
  }
  return { url, headers: Object.fromEntries(headers) }
}
