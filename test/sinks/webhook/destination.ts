// A webhook destination for tests, and what is tried on it.
import { randomBytes } from 'node:crypto'
import type { AttemptRequest, Destination } from '../../../src/sinks/sink.ts'
import type { HeaderValue, WebhookAuth } from '../../../src/event/subscription.ts'
import { anEvent, uuid7 } from '../../support/fixtures.ts'

export function aDestination(
  url: string,
  given: Partial<Destination> & { headers?: Record<string, HeaderValue>; auth?: WebhookAuth } = {},
): Destination {
  const { headers = {}, auth, ...rest } = given
  return {
    subscriptionId: '019e2686-0000-7000-8000-00000000000a',
    tenantId: 'acme',
    sink: { kind: 'webhook', url, headers, ...(auth && { auth }) },
    contentMode: 'binary',
    timeoutMs: 10_000,
    signingKeys: [{ key: randomBytes(32), expiresAt: null }],
    ...rest,
  }
}

export function anAttempt(destination: Destination, given: Partial<AttemptRequest> = {}): AttemptRequest {
  return { destination, event: anEvent(), attemptId: uuid7(), number: 1, now: Date.now(), ...given }
}
