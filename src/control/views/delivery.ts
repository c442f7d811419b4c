// Deliveries and attempts as the API shows them.
import type { Attempt, Delivery } from '../../store/deliveries.ts'
import type { AttemptJson, DeliveryJson } from '../schemas/delivery.ts'
import { isoTime, isoTimeOrNull, viewBytes } from './bytes.ts'

export function viewDelivery(d: Delivery): DeliveryJson {
  return {
    id: d.id,
    event_id: d.eventId,
    subscription_id: d.subscriptionId,
    kind: d.kind,
    replay_of: d.replayOf,
    replay_id: d.replayId,
    state: d.state,
    reason: d.reason,
    attempt_count: d.attempts,
    next_attempt_at: isoTimeOrNull(d.nextAttemptAt),
    created_at: isoTime(d.createdAt),
    finished_at: isoTimeOrNull(d.finishedAt),
    last_status: d.lastStatus,
    last_error: d.lastError,
  }
}

export function viewAttempt(a: Attempt): AttemptJson {
  const response = viewBytes(a.response)
  return {
    delivery_id: a.id,
    number: a.number,
    started_at: isoTime(a.startedAt),
    duration_ms: a.durationMs,
    outcome: a.outcome,
    status: a.status,
    error_class: a.errorClass,
    error_detail: a.errorDetail,
    response: response.text,
    response_encoding: response.encoding,
  }
}
