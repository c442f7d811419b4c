// Shows that a destination wants events: it is sent a random challenge, signed like any event, and has to send it back. Who
// merely answers 200 to everything does not pass.
import { randomBytes, timingSafeEqual } from 'node:crypto'

export const VERIFICATION_EVENT_TYPE = 'hub.verification'

export function newChallenge(): string {
  return randomBytes(24).toString('base64url')
}

export function verificationBody(challenge: string, subscriptionId: string): Buffer {
  return Buffer.from(JSON.stringify({ type: VERIFICATION_EVENT_TYPE, challenge, subscription_id: subscriptionId }))
}

/** True when an answer's body is the challenge: as plain text, or as JSON `{"challenge": "…"}`; white space around is fine. */
export function echoes(answer: Buffer, challenge: string): boolean {
  const text = answer.toString('utf8').trim()
  return equal(text, challenge) || equal(challengeIn(text), challenge)
}

function challengeIn(text: string): string {
  try {
    const parsed = JSON.parse(text) as { challenge?: unknown } | null
    return typeof parsed?.challenge === 'string' ? parsed.challenge : ''
  } catch {
    return ''
  }
}

/** In constant time, but for the length, which is no secret. */
function equal(found: string, expected: string): boolean {
  const [a, b] = [Buffer.from(found), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}
