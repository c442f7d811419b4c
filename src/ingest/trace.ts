// The span of an event's intake: one for each event that is sampled, since each is part of another producer's trace; the batch that it
// came in with is told in numbers. An event that is not sampled costs one decision.
import type { Tracer } from '../base/tracing.ts'
import type { Event } from '../event/event.ts'
import type { IncomingRecord } from '../event/record.ts'
import { spanIdOf, traceOf } from '../event/trace-context.ts'

/** Records that `event` was taken in. A duplicate has had its span. */
export function traceIntake(
  tracer: Tracer,
  { event, record }: { event: Event; record: IncomingRecord },
  batch: { startedAt: number; endedAt: number; size: number },
): void {
  const at = traceOf(event)
  if (!tracer.isSampled(at)) return
  tracer.record({
    name: `ingest ${event.key}`,
    kind: 'consumer',
    at,
    spanId: spanIdOf(event.id),
    startedAt: batch.startedAt,
    endedAt: batch.endedAt,
    attributes: {
      'messaging.system': record.position ? 'kafka' : 'http',
      'messaging.operation.type': 'process',
      'messaging.destination.name': record.topic,
      'messaging.destination.partition.id': record.position ? String(record.position.partition) : null,
      'messaging.kafka.offset': record.position ? Number(record.position.offset) : null,
      'messaging.message.id': event.id,
      'messaging.message.body.size': event.data?.length ?? 0,
      'messaging.batch.message_count': batch.size,
      'cloudevents.event_id': event.id,
      'cloudevents.event_source': event.source,
      'cloudevents.event_type': event.key,
      'hub.tenant.id': event.tenantId,
    },
    errorType: null,
  })
}
