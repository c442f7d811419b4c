// A subscription as the API shows it.
import { formatDuration } from '../../base/duration.ts'
import { parseSchedule } from '../../dispatch/backoff.ts'
import type { Subscription } from '../../event/subscription.ts'
import type { SubscriptionJson } from '../schemas/subscription.ts'
import { isoTime, isoTimeOrNull } from './bytes.ts'

export function viewSubscription(s: Subscription): SubscriptionJson {
  return {
    id: s.id,
    name: s.name,
    enabled: s.enabled,
    verification_state: s.verificationState,
    origin: s.origin,
    event_types: [...s.eventTypes],
    schema_major: s.schemaMajor,
    sink: { kind: s.sink.kind, url: s.sink.url, headers: s.sink.headers, timeout: formatDuration(s.timeoutMs) },
    content_mode: s.contentMode,
    ordering: s.ordering,
    retry_schedule: viewSchedule(s.retrySchedule),
    disabled_reason: s.disabledReason,
    disabled_at: isoTimeOrNull(s.disabledAt),
    metadata: s.metadata,
    created_at: isoTime(s.createdAt),
    updated_at: isoTime(s.updatedAt),
  }
}

/** A malformed one that is found stored is shown as what it works as: the default curve. */
function viewSchedule(stored: unknown): string[] | null {
  const { schedule, malformed } = parseSchedule(stored)
  return stored === null || malformed ? null : schedule.map(formatDuration)
}
