// The W3C trace context that a record may carry beside its attributes. What does not follow the grammar is left out: a broken
// trace is never a reason to refuse an event.

// A future version may have more behind the flags; what cannot be read whole is not continued.
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
const TRACESTATE_KEY = '(?:[a-z0-9][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})'
const TRACESTATE_VALUE = '[ -+\\--<>-~]{0,255}[!-+\\--<>-~]'
const TRACESTATE_MEMBER = new RegExp(`^${TRACESTATE_KEY}=${TRACESTATE_VALUE}$`)

/** What everybody has to pass on; longer ones may be dropped. */
const MAX_TRACESTATE_LENGTH = 512
const MAX_TRACESTATE_MEMBERS = 32

/** Whether `text` is a `traceparent` of exactly the four fields, with ids that are not all zeros. */
export function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text)
}

/** Whether `text` is a `tracestate`: 1–32 `key=value` members (empty ones are allowed beside them), at most 512 characters. */
export function isTracestate(text: string): boolean {
  if (text.length > MAX_TRACESTATE_LENGTH) return false
  const members = text
    .split(',')
    .map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((member) => member !== '')
  if (members.length === 0 || members.length > MAX_TRACESTATE_MEMBERS) return false
  return members.every((member) => TRACESTATE_MEMBER.test(member))
}

/**
 * Where an event's first span in the hub hangs: below the producer's, or at the root of a trace whose id is the event's own (a UUIDv7
 * has the form of one), so that every stage, hours later too, knows the trace of an event without one.
 */
export function traceOf(event: { id: string; traceparent: string | null }) {
  const traceId = event.traceparent?.slice(3, 35) ?? event.id.replaceAll('-', '')
  const parentId = event.traceparent?.slice(36, 52) ?? null
  return { traceId, parentId, sampled: hasSampledFlag(event.traceparent) }
}

/** The id of the span of what a UUIDv7 identifies (an event taken in, an attempt): its random half, so the one is found by the other. */
export function spanIdOf(uuid: string): string {
  return uuid.slice(-17).replace('-', '')
}

/** The same context with the sampled flag as given, and the other flags as they were. */
export function withSampled(traceparent: string, sampled: boolean): string {
  const flags = (Number.parseInt(traceparent.slice(53, 55), 16) & ~1) | (sampled ? 1 : 0)
  return traceparent.slice(0, 53) + flags.toString(16).padStart(2, '0')
}

function hasSampledFlag(traceparent: string | null): boolean {
  return traceparent !== null && (Number.parseInt(traceparent.slice(53, 55), 16) & 1) === 1
}
