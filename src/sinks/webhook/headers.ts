// Every header of a webhook request, and which headers a subscription may add of its own. The hub's own always win.
import { signatureHeaders } from './signature.ts'
import type { Destination } from '../sink.ts'

const MAX_HEADERS = 32
const MAX_NAME_LENGTH = 256
const MAX_VALUE_LENGTH = 4096

/** The hub's own and the body's; the connection's (hop by hop). */
const OF_THE_HUB = /^((x-lerian|webhook|ce)-.*|content-(encoding|length|type)|trace(parent|state)|user-agent)$/
const OF_THE_CONNECTION =
  /^(proxy-.*|connection|expect|host|http2-settings|keep-alive|te|trailer|transfer-encoding|upgrade)$/

/** What a request is about: an event, or the hub's own verification. */
export interface WebhookMessage {
  /** The same on every attempt. */
  eventId: string
  eventType: string
  attemptId: string
  attempt: number
  /** Epoch ms. */
  now: number
  /** Those that come with the body: `content-type`, `ce-*`, the trace. */
  headers: Record<string, string>
  body: Buffer
}

/** All headers of one request, or null when no key of the destination signs at its time: nothing leaves unsigned. */
export function messageHeaders(
  destination: Destination,
  message: WebhookMessage,
  userAgent: string,
): Record<string, string> | null {
  const { eventId, now, body } = message
  const signatures = signatureHeaders({ id: eventId, now, body, keys: destination.signingKeys })
  if (!signatures) return null
  return {
    ...lowerCased(destination.sink.headers),
    ...message.headers,
    'user-agent': userAgent,
    'x-lerian-event-id': eventId,
    'x-lerian-delivery-id': message.attemptId,
    'x-lerian-event-type': message.eventType,
    'x-lerian-attempt': String(message.attempt),
    'x-lerian-timestamp': new Date(now).toISOString(),
    ...signatures,
  }
}

/** What is wrong with the headers that a subscription wants to add, in readable sentences; none when all may be added. */
export function headerFaults(headers: Record<string, string>): string[] {
  const entries = Object.entries(headers)
  const names = entries.map(([name]) => name.toLowerCase())
  return [
    ...(entries.length > MAX_HEADERS ? [`there must not be more than ${MAX_HEADERS} headers`] : []),
    ...(new Set(names).size < names.length ? ['a header must not be given twice in different letter case'] : []),
    ...entries.flatMap(([name, value]) => faultsOf(name, value)),
  ]
}

function faultsOf(name: string, value: string): string[] {
  if (name.length > MAX_NAME_LENGTH || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
    return [`${JSON.stringify(name.slice(0, 64))} is not a header's name`]
  }
  if (OF_THE_HUB.test(name.toLowerCase())) return [`${name} is set by the hub`]
  if (OF_THE_CONNECTION.test(name.toLowerCase())) return [`${name} belongs to the connection`]
  if (value.length > MAX_VALUE_LENGTH) return [`${name} must not be longer than ${MAX_VALUE_LENGTH} characters`]
  if (!/^[\t\x20-\x7e]*$/.test(value)) return [`${name} must have printable ASCII characters only`]
  return []
}

function lowerCased(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}
