// A subscription as the API shows it.
import { formatDuration } from '../../base/duration.ts'
import { parseSchedule } from '../../dispatch/backoff.ts'
import { maskSecrets } from '../../event/sink-secrets.ts'
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
    sink: viewSink(s),
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

/** Masked anew, whatever is stored. */
function viewSink({ sink, timeoutMs }: Subscription): SubscriptionJson['sink'] {
  const { kind, url, headers, auth = null } = maskSecrets(sink)
  return { kind, url, headers, auth, timeout: formatDuration(timeoutMs) }
}

/** A malformed one that is found stored is shown as what it works as: the default curve. */
function viewSchedule(stored: unknown): string[] | null {
  const { schedule, malformed } = parseSchedule(stored)
  return stored === null || malformed ? null : schedule.map(formatDuration)
}
