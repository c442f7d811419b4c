// Events of the API, and what HTTP ingest answers.
import { Type, type Static } from 'typebox'
import { REASON_CODES } from '../../event/reason.ts'
import { BytesEncoding, BytesText, DeliverySchema } from './delivery.ts'
import { Nullable, Timestamp, Uuid, named, pageQuery, refer } from './common.ts'

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

export const Explanation = named(
  'Explanation',
  Type.Object({
    subscription_id: Uuid,
    subscription_name: Type.String(),
    matched: Type.Boolean({ description: 'Whether it would match now, as the subscription is now.' }),
    reasons: Type.Array(Type.Enum(['disabled', 'unverified', 'origin', 'event_type', 'schema_major']), {
      description: 'Everything that keeps it from matching.',
    }),
    delivery_ids: Type.Array(Uuid, {
      description: 'The deliveries that there are: what matched when the event arrived, and replays.',
    }),
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
export type ExplanationJson = Static<typeof Explanation>
export type IngestVerdictJson = Static<typeof IngestVerdict>
