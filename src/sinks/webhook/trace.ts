// W3C trace context: a delivery is a child of the trace in which its event was produced, so that one trace shows both.
import { spanIdOf } from '../../event/trace-context.ts'

const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})(?<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?<flags>[0-9a-f]{2})(-|$)/

/**
 * The trace headers of one attempt; none when the producer sent no valid `traceparent`. The new span's id is the random half
 * of the attempt's id (a UUIDv7), so that the one can be found by the other.
 */
export function traceHeaders(
  producer: { traceparent: string | null; tracestate: string | null },
  attemptId: string,
): Record<string, string> {
  const parent = TRACEPARENT.exec(producer.traceparent ?? '')?.groups
  if (!parent) return {}
  const traceparent = `00-${parent['trace']}-${spanIdOf(attemptId)}-${parent['flags']}`
  const tracestate = producer.tracestate ?? ''
  return /^[\x20-\x7e]+$/.test(tracestate) ? { traceparent, tracestate } : { traceparent }
}
