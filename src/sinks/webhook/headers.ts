// Every header of a webhook request. The hub's own always win over a subscription's.
import type { SigningKey } from '../sink.ts'
import { signatureHeaders } from './signature.ts'

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

/** What a destination's requests have in common. */
export interface Sender {
  signingKeys: readonly SigningKey[]
  userAgent: string
  /** The subscription's own, names in lower case. */
  headers: Record<string, string>
}

/** All headers of one request, or null when no key signs at its time: nothing leaves unsigned. */
export function messageHeaders(sender: Sender, message: WebhookMessage): Record<string, string> | null {
  const { eventId, now, body } = message
  const signatures = signatureHeaders({ id: eventId, now, body, keys: sender.signingKeys })
  if (!signatures) return null
  return {
    ...sender.headers,
    ...message.headers,
    'user-agent': sender.userAgent,
    'x-lerian-event-id': eventId,
    'x-lerian-delivery-id': message.attemptId,
    'x-lerian-event-type': message.eventType,
    'x-lerian-attempt': String(message.attempt),
    'x-lerian-timestamp': new Date(now).toISOString(),
    ...signatures,
  }
}
