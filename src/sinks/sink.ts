// The contract between dispatch and every kind of destination. A sink makes exactly one try and says how it ended; it knows
// nothing of retries, breakers or order, and dispatch knows nothing of URLs, queues or signatures.
import type { Event } from '../event/event.ts'
import type { SinkSettings, ContentMode } from '../event/subscription.ts'

/** A signing secret's key; while a rotation's overlap lasts there is more than one, the newest first. */
export interface SigningKey {
  key: Buffer
  /** Epoch ms after which it no longer signs; null: it is the current one. */
  expiresAt: number | null
}

/** Everything that a sink needs of a subscription, secrets opened: held in memory only. */
export interface Destination {
  subscriptionId: string
  tenantId: string
  sink: SinkSettings
  contentMode: ContentMode
  timeoutMs: number
  signingKeys: readonly SigningKey[]
}

export interface AttemptRequest {
  destination: Destination
  event: Event
  /** A UUIDv7, new on every attempt: `x-lerian-delivery-id`. */
  attemptId: string
  /** 1, 2, …: `x-lerian-attempt`. */
  number: number
  /** The attempt's time, epoch ms: what is signed and sent as its timestamp. */
  now: number
}

export type FailureClass =
  | 'http_status' // an answer that is not a 2xx
  | 'redirect' // a 3xx, never followed
  | 'timeout'
  | 'connection'
  | 'tls'
  | 'dns'
  | 'proxy' // the hub's own proxy cannot be used: that says nothing about the destination
  | 'tunnel' // the proxy did not reach the destination: either may be at fault
  | 'refused_address' // the address guard said no
  | 'auth_failed' // what shows the receiver who sends could not be had
  | 'invalid_destination' // the stored settings cannot be used
  | 'payload' // the sink cannot carry this event
  | 'aborted' // its signal ended it early: that says nothing about the destination
  | 'internal' // the sink itself threw

export type Outcome =
  | { kind: 'delivered'; status: number | null; response: Buffer }
  | {
      kind: 'failed'
      errorClass: FailureClass
      /** One readable sentence without secrets. */
      detail: string
      status: number | null
      /** The first bytes of the answer, at most 4 KiB. */
      response: Buffer
      /** The receiver's `Retry-After` as it stood, on 429 and 503 only. */
      retryAfter: string | null
    }

export interface ProbeRequest {
  destination: Destination
  /** A UUIDv7 for this probe. */
  attemptId: string
  now: number
}

export interface Sink {
  /** One try. Resolves within the destination's time-out (a little more for tidying up) whatever happens; `signal` aborts it early. */
  deliver(attempt: AttemptRequest, signal: AbortSignal): Promise<Outcome>
  /** Shows that the destination is there and wants events (webhook: the challenge). Never an event's delivery. */
  probe(request: ProbeRequest, signal: AbortSignal): Promise<Outcome>
  /** Lets idle connections go. */
  close(): Promise<void>
}
