// The identity of a destination: what the circuit breaker is kept by, together with the tenant. Two subscriptions whose URLs
// are only written differently share it.
import { createHash } from 'node:crypto'
import type { SinkSettings } from '../../event/subscription.ts'

/** 32 hex digits, the same for all spellings of one URL. Never throws: a URL that cannot be parsed is its own spelling. */
export function destinationKey(sink: SinkSettings): string {
  return createHash('sha256')
    .update(`${sink.kind} ${canonicalUrl(sink.url)}`)
    .digest('hex')
    .slice(0, 32)
}

function canonicalUrl(text: string): string {
  const url = URL.parse(text)
  if (!url) return text
  // The parser has done the host's case, punycode, the default port and dot segments.
  const host = url.hostname.replace(/\.$/, '')
  const port = url.port === '' ? '' : `:${url.port}`
  const target = `${url.pathname}${url.search}`.replace(/%[0-9a-f]{2}/gi, (escaped) => escaped.toUpperCase())
  return `${url.protocol}//${host}${port}${target}`
}
