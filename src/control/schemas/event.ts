// Events of the API, and what HTTP ingest answers.
import { Type, type Static } from 'typebox'
import { REASON_CODES } from '../../event/reason.ts'
import { BytesEncoding, BytesText, DeliverySchema, DeliveryState } from './delivery.ts'
import { DurationText, EventPattern, Nullable, SourceName, Timestamp, Uuid, named, pageQuery, refer } from './common.ts'

export const EventSchema = named(
  'Event',
  Type.Object({
    id: Type.String({ ...Uuid, description: 'The ce-id.' }),
    source: Type.String(),
    event_type: Type.String({ description: 'What subscriptions ask for: <resource>.<event>.' }),
    resource_type: Type.String(),
    schema_major: Type.Integer(),
    attributes: Type.Record(Type.String(), Type.String(), {
      description: 'Every ce-* attribute by its name without the prefix.',
    }),
    traceparent: Nullable(Type.String()),
    tracestate: Nullable(Type.String()),
    data: BytesText,
    data_encoding: BytesEncoding,
    data_bytes: Type.Integer(),
    received_at: Timestamp,
    deliveries: Type.Array(refer(DeliverySchema), { description: 'The first 1000.' }),
  }),
)

export const PulledEventSchema = named(
  'PulledEvent',
  Type.Object({
    id: Type.String({ ...Uuid, description: 'The ce-id.' }),
    source: Type.String(),
    event_type: Type.String({ description: 'What subscriptions ask for: <resource>.<event>.' }),
    resource_type: Type.String(),
    schema_major: Type.Integer(),
    attributes: Type.Record(Type.String(), Type.String(), {
      description: 'Every ce-* attribute by its name without the prefix.',
    }),
    traceparent: Nullable(Type.String()),
    tracestate: Nullable(Type.String()),
    received_at: Timestamp,
    data_bytes: Type.Integer(),
    data: Type.Optional(Type.Unknown({ description: 'Data that is JSON, byte for byte as it was sent.' })),
    data_base64: Type.Optional(Type.String({ description: 'All other data. An event without data has neither.' })),
  }),
)

export const PulledPage = Type.Object({
  items: Type.Array(refer(PulledEventSchema)),
  next_cursor: Type.String({ description: 'Where to go on, also at the end.' }),
  has_more: Type.Boolean({ description: 'There is more to look at: ask again at once.' }),
})

const MAX_PATTERNS = 20

export const PullQuerySchema = Type.Object(
  {
    ...pageQuery,
    cursor: Type.Optional(Type.String({ maxLength: 1024, description: 'next_cursor of the call before' })),
    from: Type.Optional(
      Type.Enum(['earliest', 'latest'], {
        description:
          'Where a reader without a cursor begins: with all that is stored (default), or with what comes from now on.',
      }),
    ),
    wait: Type.Optional(DurationText('0s', '30s')),
    origin: Type.Optional(SourceName),
    event_type: Type.Optional(
      Type.Union([EventPattern, Type.Array(EventPattern, { minItems: 1, maxItems: MAX_PATTERNS })], {
        description: `What subscriptions may ask for; may be given up to ${MAX_PATTERNS} times.`,
      }),
    ),
  },
  { additionalProperties: false },
)

export const Explanation = named(
  'Explanation',
  Type.Object({
    subscription_id: Uuid,
    subscription_name: Type.String(),
    matched: Type.Boolean({ description: 'Whether nothing keeps it from matching, as the subscription is now.' }),
    reasons: Type.Array(
      Type.Enum(['deleted', 'created_later', 'disabled', 'unverified', 'origin', 'event_type', 'schema_major']),
      {
        description:
          'Everything that keeps it from matching. created_later: there was no such subscription when the event arrived; deleted: there was, and it is gone.',
      },
    ),
    delivery_ids: Type.Array(Uuid, {
      description: 'The deliveries that there are: what matched when the event arrived, and replays.',
    }),
    deliveries: Type.Array(
      Type.Object({ id: Uuid, kind: Type.Enum(['event', 'replay', 'test']), state: DeliveryState }),
      { description: 'The same, with what has become of them.' },
    ),
  }),
)

export const ExplainQuery = Type.Object(pageQuery, { additionalProperties: false })

export const IngestVerdict = named(
  'IngestVerdict',
  Type.Object({
    verdict: Type.Enum(['accepted', 'duplicate', 'dropped', 'quarantined']),
    id: Nullable(Type.String({ ...Uuid, description: 'The ce-id of an accepted event or a duplicate.' })),
    reason: Nullable(Type.Enum([...REASON_CODES])),
    detail: Nullable(Type.String()),
  }),
)

export const Ingested = Type.Object({
  items: Type.Array(refer(IngestVerdict), { description: "In the request's order." }),
})

export type EventJson = Static<typeof EventSchema>
export type PulledEventJson = Static<typeof PulledEventSchema>
export type ExplanationJson = Static<typeof Explanation>
export type IngestVerdictJson = Static<typeof IngestVerdict>
