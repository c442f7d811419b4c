// An accepted event: one CloudEvent that belongs to one tenant, identified by (tenant, id).

export interface Event {
  tenantId: string
  /** `ce-id`, a UUIDv7 in lower case. */
  id: string
  /** `ce-source`, the producing application: what a subscription's `origin` is compared with. */
  source: string
  /** `<resource>.<event>`, what subscriptions match and receivers see as `x-lerian-event-type`. */
  key: string
  resourceType: string
  schemaMajor: number
  /** Every `ce-*` attribute by its name without the prefix, extensions too, values as sent (the id in lower case). */
  attributes: Record<string, string>
  /** The record's own W3C trace context, where it carries one. */
  traceparent: string | null
  tracestate: string | null
  /** The body, byte for byte; null for an event without data. */
  data: Buffer | null
}

export const DEFAULT_DATA_CONTENT_TYPE = 'application/json'

/** The largest body that the hub takes: 1 MiB. */
export const MAX_DATA_BYTES = 1 << 20
