// What a caller wants a subscription to be, once its form is right: the checks that a schema cannot state, all faults at once, and
// the defaults. PATCH goes the same way: the stored subscription is written out as a request, merged, and read again.
import { formatDuration, parseDuration } from '../base/duration.ts'
import type { Fault } from '../base/errors.ts'
import { MAX_STEP_MS } from '../dispatch/backoff.ts'
import type { SinkSettings, Subscription } from '../event/subscription.ts'
import { mergePatch } from './merge-patch.ts'
import { CreateSubscription, type CreateSubscriptionBody, type PatchSubscriptionBody } from './schemas/subscription.ts'
import { createCheck, invalid } from './validation.ts'
import { viewSubscription } from './views/subscription.ts'

const DEFAULT_TIMEOUT = '30s'
const MIN_TIMEOUT_MS = 1_000
const MAX_TIMEOUT_MS = 60_000
const MAX_METADATA_BYTES = 16 * 1024

/** What may be registered as a sink, and which destination it is. */
export interface SinkRules {
  /** Paths are JSON pointers into the settings: `/url`. */
  faults(sink: SinkSettings): Fault[]
  destinationKey(sink: SinkSettings): string
}

/** Everything of a subscription that its owner decides. */
export type SubscriptionDraft = Pick<
  Subscription,
  | 'name'
  | 'enabled'
  | 'origin'
  | 'eventTypes'
  | 'schemaMajor'
  | 'sink'
  | 'destinationKey'
  | 'contentMode'
  | 'ordering'
  | 'retrySchedule'
  | 'timeoutMs'
  | 'metadata'
>

/** Reads a request that fits its schema. Throws `invalid_request` with every fault. */
export function readDraft(body: CreateSubscriptionBody, rules: SinkRules): SubscriptionDraft {
  const sink: SinkSettings = { kind: 'webhook', url: body.sink.url, headers: body.sink.headers ?? {} }
  const timeoutMs = parseDuration(body.sink.timeout ?? DEFAULT_TIMEOUT)
  const schedule = body.retry_schedule?.map(parseDuration) ?? null
  const faults = [
    ...rules.faults(sink).map(({ path, message }) => ({ path: `/sink${path}`, message })),
    ...timeoutFaults(timeoutMs),
    ...(schedule ?? []).flatMap(stepFaults),
    ...metadataFaults(body.metadata ?? {}),
  ]
  if (faults.length > 0 || timeoutMs === null) throw invalid(faults)
  return {
    name: body.name,
    enabled: body.enabled ?? true,
    origin: body.origin ?? null,
    eventTypes: [...new Set(body.event_types)],
    schemaMajor: body.schema_major ?? null,
    sink,
    destinationKey: rules.destinationKey(sink),
    contentMode: body.content_mode ?? 'binary',
    ordering: body.ordering ?? 'fifo',
    retrySchedule: schedule,
    timeoutMs,
    metadata: body.metadata ?? {},
  }
}

const checkMerged = createCheck(CreateSubscription)

/**
 * What `current` becomes by a merge patch. Throws `invalid_request` with every fault. A sink that stays as it is, is not judged
 * again: what was once let in must not keep its owner from switching it off.
 */
export function patchDraft(current: Subscription, patch: PatchSubscriptionBody, rules: SinkRules): SubscriptionDraft {
  const merged = checkMerged(mergePatch(asRequest(current), patch))
  return readDraft(merged, patch.sink === undefined ? { ...rules, faults: () => [] } : rules)
}

function asRequest(current: Subscription): CreateSubscriptionBody {
  const { name, enabled, origin, event_types, schema_major, sink, content_mode, ordering, retry_schedule, metadata } =
    viewSubscription(current)
  return { name, enabled, origin, event_types, schema_major, sink, content_mode, ordering, retry_schedule, metadata }
}

function timeoutFaults(ms: number | null): Fault[] {
  if (ms !== null && ms >= MIN_TIMEOUT_MS && ms <= MAX_TIMEOUT_MS) return []
  const [least, most] = [formatDuration(MIN_TIMEOUT_MS), formatDuration(MAX_TIMEOUT_MS)]
  return [{ path: '/sink/timeout', message: `must be a duration from ${least} to ${most}` }]
}

function stepFaults(ms: number | null, place: number): Fault[] {
  if (ms !== null && ms <= MAX_STEP_MS) return []
  return [{ path: `/retry_schedule/${place}`, message: `must be a duration of at most ${formatDuration(MAX_STEP_MS)}` }]
}

function metadataFaults(metadata: Record<string, unknown>): Fault[] {
  if (Buffer.byteLength(JSON.stringify(metadata)) <= MAX_METADATA_BYTES) return []
  return [{ path: '/metadata', message: `must be at most ${MAX_METADATA_BYTES / 1024} KiB of JSON` }]
}
