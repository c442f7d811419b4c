// A customer's webhook endpoint, as small as one can be and still right: it answers the verification challenge, checks both
// signatures over the bytes that it was sent, and says what arrived. For `npm run demo` and `streaming-hub listen`, and to be
// read by whoever writes a receiver.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'

/** How far a signature's time may lie from the clock, in seconds: older ones may be a replay. */
const TOLERANCE_S = 300

export interface Arrival {
  kind: 'event' | 'challenge'
  /** Stable over all attempts: what a receiver deduplicates by. */
  eventId: string
  eventType: string
  attempt: number
  /** Whether the receiver has taken this event before. */
  repeated: boolean
  /** `unchecked`: the receiver has not been told a secret. */
  signature: 'valid' | 'invalid' | 'unchecked'
  /** The status that it was answered with. */
  answered: number
  body: Buffer
}

export interface SampleReceiver {
  url: string
  /** Verifies by this signing secret (`whsec_…`) from now on, and refuses what it did not sign. */
  trust(secret: string): void
  stop(): Promise<void>
}

export interface ReceiverOptions {
  /** 0: a free one. */
  port: number
  onArrival: (arrival: Arrival) => void
  /** Called for each event; true makes the receiver fail it with a 503. */
  fails?: () => boolean
}

/** Listens on loopback, on every path. Rejects when the port is taken. */
export async function startReceiver({
  port,
  onArrival,
  fails = () => false,
}: ReceiverOptions): Promise<SampleReceiver> {
  let secret: string | null = null
  const taken = new Set<string>()
  const server = createServer((request, response) => {
    void receive(request, response).catch(() => response.destroy())
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request)
    const arrival = describe(request.headers, body, secret)
    arrival.repeated = taken.has(arrival.eventId)
    arrival.answered = arrival.signature === 'invalid' ? 401 : arrival.kind === 'event' && fails() ? 503 : 200
    if (arrival.answered === 200) taken.add(arrival.eventId)
    response.statusCode = arrival.answered
    response.end(arrival.kind === 'challenge' ? challengeOf(body) : '')
    onArrival(arrival)
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    trust: (given) => void (secret = given),
    stop: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

function describe(headers: IncomingHttpHeaders, body: Buffer, secret: string | null): Arrival {
  const eventType = String(headers['x-lerian-event-type'] ?? '')
  return {
    kind: eventType === 'hub.verification' ? 'challenge' : 'event',
    eventId: String(headers['x-lerian-event-id'] ?? ''),
    eventType,
    attempt: Number(headers['x-lerian-attempt'] ?? 1),
    repeated: false,
    signature: secret === null ? 'unchecked' : isSigned(headers, body, secret) ? 'valid' : 'invalid',
    answered: 200,
    body,
  }
}

function challengeOf(body: Buffer): string {
  return String((JSON.parse(body.toString()) as { challenge: unknown }).challenge)
}

/** Either signature would do; both are checked here because both are promised. */
function isSigned(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  return isSignedByStandardWebhooks(headers, body, secret) && isSignedByLerian(headers, body, secret)
}

function isSignedByStandardWebhooks(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>, { jsonParse: false })
    return true
  } catch {
    return false
  }
}

/** `t=<unix seconds>,v1=<hex>`, with one more `v1` while a rotation lasts: HMAC-SHA256 over `<t>.<body>`. */
function isSignedByLerian(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  const fields = String(headers['x-lerian-signature'] ?? '').split(',')
  const time = fields.find((field) => field.startsWith('t='))?.slice(2) ?? ''
  if (!(Math.abs(Date.now() / 1000 - Number(time)) <= TOLERANCE_S)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${time}.`).update(body).digest()
  return fields
    .filter((field) => field.startsWith('v1='))
    .map((field) => Buffer.from(field.slice(3), 'hex'))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected))
}
