// An event's key is `<resource>.<event>`: what subscriptions ask for, and what receivers see as `x-lerian-event-type`.

const SEGMENT = /^[A-Za-z0-9_-]{1,128}$/

/** Whether `text` may stand as a resource type or as an event type. It holds no dot, so a key splits in one way only. */
export function isKeySegment(text: string): boolean {
  return SEGMENT.test(text)
}
