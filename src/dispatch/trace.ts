// The span of an attempt: a child of the span of its event's intake, hours later too, and the parent of what the receiver does.
import type { Tracer } from '../base/tracing.ts'
import type { Event } from '../event/event.ts'
import { spanIdOf, traceOf, withSampled } from '../event/trace-context.ts'
import type { ClaimedJob } from '../store/lanes.ts'
import type { AttemptRow } from '../store/outcomes.ts'

/** The event as it goes out: its trace context says whether the attempt's span is recorded. Without a tracer the producer's word stands. */
export function continued(event: Event, tracer: Tracer | null | undefined): Event {
  if (!tracer || event.traceparent === null) return event
  return { ...event, traceparent: withSampled(event.traceparent, tracer.isSampled(belowIntake(event, tracer))) }
}

/** Records an attempt that has ended. */
export function traceAttempt(tracer: Tracer, row: AttemptRow, job: ClaimedJob): void {
  const { event } = job
  const at = belowIntake(event, tracer)
  if (!tracer.isSampled(at)) return
  tracer.record({
    name: `deliver ${event.key}`,
    kind: 'client',
    at,
    spanId: spanIdOf(row.attemptId),
    startedAt: row.startedAt,
    endedAt: row.startedAt + (row.durationMs ?? 0),
    attributes: {
      'messaging.message.id': event.id,
      'cloudevents.event_id': event.id,
      'cloudevents.event_source': event.source,
      'cloudevents.event_type': event.key,
      'http.response.status_code': row.status,
      'hub.tenant.id': row.tenantId,
      'hub.subscription.id': row.subscriptionId,
      'hub.delivery.id': row.deliveryId,
      'hub.attempt.id': row.attemptId,
      'hub.delivery.kind': job.kind,
      'hub.attempt.number': row.number,
      'hub.attempt.outcome': row.outcome,
      'hub.attempt.fate': row.fate,
    },
    errorType: row.errorClass,
  })
}

function belowIntake(event: Event, tracer: Tracer) {
  const intake = traceOf(event)
  return { traceId: intake.traceId, parentId: spanIdOf(event.id), sampled: tracer.isSampled(intake) }
}
