// What a caller wants a subscription to be, once its form is right: the checks that a schema cannot state, all faults at once, and
// the defaults. PATCH goes the same way: the stored subscription is written out as a request, merged, and read again.
import assert from 'node:assert/strict'
import { parseDuration } from '../base/duration.ts'
import type { Fault } from '../base/errors.ts'
import type { SinkSettings, Subscription } from '../event/subscription.ts'
import { mergePatch } from './merge-patch.ts'
import { takeSecrets, type NewSecret } from './sink-secrets.ts'
import { CreateSubscription, type CreateSubscriptionBody, type PatchSubscriptionBody } from './schemas/subscription.ts'
import { createCheck, invalid } from './validation.ts'
import { viewSubscription } from './views/subscription.ts'

const DEFAULT_TIMEOUT = '30s'
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

/** What a request comes to. Its secrets are apart, so that nothing that stores or shows a subscription can hold one. */
export interface Wish {
  draft: SubscriptionDraft
  secrets: readonly NewSecret[]
}

/**
 * Reads a request that fits its schema; `stored` is the sink whose secrets it may leave as they are. Throws `invalid_request` with
 * every fault.
 */
export function readWish(body: CreateSubscriptionBody, rules: SinkRules, stored: SinkSettings | null = null): Wish {
  const { url, headers = {}, auth = null } = body.sink
  const asked: SinkSettings = { kind: 'webhook', url, headers, auth }
  const taken = takeSecrets(asked, stored)
  const faults = [
    ...[...rules.faults(asked), ...taken.faults].map(({ path, message }) => ({ path: `/sink${path}`, message })),
    ...metadataFaults(body.metadata ?? {}),
  ]
  if (faults.length > 0) throw invalid(faults)
  return { draft: draftOf(body, taken.sink, rules), secrets: taken.secrets }
}

function draftOf(body: CreateSubscriptionBody, sink: SinkSettings, rules: SinkRules): SubscriptionDraft {
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
    retrySchedule: body.retry_schedule?.map(durationMs) ?? null,
    timeoutMs: durationMs(body.sink.timeout ?? DEFAULT_TIMEOUT),
    metadata: body.metadata ?? {},
  }
}

const checkMerged = createCheck(CreateSubscription)

/**
 * What `current` becomes by a merge patch. Throws `invalid_request` with every fault. A sink that stays as it is, is not judged
 * again: what was once let in must not keep its owner from switching it off.
 */
export function patchWish(current: Subscription, patch: PatchSubscriptionBody, rules: SinkRules): Wish {
  const merged = checkMerged(mergePatch(withoutOtherAuth(asRequest(current), patch), patch))
  return readWish(merged, patch.sink === undefined ? { ...rules, faults: () => [] } : rules, current.sink)
}

/** Another kind of authentication takes the place of the one that is there: of two kinds, merged fields would fit neither. */
function withoutOtherAuth(current: CreateSubscriptionBody, patch: PatchSubscriptionBody): CreateSubscriptionBody {
  const kind = patch.sink?.auth?.kind
  if (kind === undefined || kind === current.sink.auth?.kind) return current
  return { ...current, sink: { ...current.sink, auth: null } }
}

function asRequest(current: Subscription): CreateSubscriptionBody {
  const { name, enabled, origin, event_types, schema_major, sink, content_mode, ordering, retry_schedule, metadata } =
    viewSubscription(current)
  return { name, enabled, origin, event_types, schema_major, sink, content_mode, ordering, retry_schedule, metadata }
}

/** Of a text that a schema has let through as a duration. */
export function durationMs(text: string): number {
  const ms = parseDuration(text)
  assert(ms !== null)
  return ms
}

function metadataFaults(metadata: Record<string, unknown>): Fault[] {
  if (Buffer.byteLength(JSON.stringify(metadata)) <= MAX_METADATA_BYTES) return []
  return [{ path: '/metadata', message: `must be at most ${MAX_METADATA_BYTES / 1024} KiB of JSON` }]
}
