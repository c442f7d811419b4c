// Deliveries and attempts of the API.
import { Type, type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, named, pageQuery, refer, timeQuery } from './common.ts'

export const DeliveryState = Type.Enum(['queued', 'retrying', 'delivered', 'dead_lettered'])
const DeadLetterReason = Type.Enum(['exhausted', 'poisoned', 'cancelled'])
/** Bytes as text where they are UTF-8, else as base64. */
export const BytesText = Nullable(Type.String())
export const BytesEncoding = Nullable(Type.Enum(['utf-8', 'base64']))

const delivery = {
  id: Uuid,
  event_id: Uuid,
  subscription_id: Uuid,
  kind: Type.Enum(['event', 'replay', 'test']),
  replay_of: Nullable(Type.String({ ...Uuid, description: 'The finished delivery that it repeats.' })),
  replay_id: Nullable(Type.String({ ...Uuid, description: 'The replay that made it; null: a retry by hand.' })),
  state: DeliveryState,
  reason: Nullable(DeadLetterReason),
  attempt_count: Type.Integer({ description: 'Attempts that were started.' }),
  next_attempt_at: Nullable(Timestamp),
  created_at: Timestamp,
  finished_at: Nullable(Timestamp),
  last_status: Nullable(Type.Integer()),
  last_error: Nullable(Type.String()),
}

export const DeliverySchema = named('Delivery', Type.Object(delivery))

export const AttemptSchema = named(
  'Attempt',
  Type.Object({
    delivery_id: Type.String({ ...Uuid, description: 'The x-lerian-delivery-id that it went out with.' }),
    number: Type.Integer(),
    started_at: Timestamp,
    duration_ms: Nullable(Type.Integer()),
    outcome: Type.Enum(['delivered', 'failed', 'outcome_unknown']),
    status: Nullable(Type.Integer()),
    error_class: Nullable(Type.String()),
    error_detail: Nullable(Type.String()),
    response: BytesText,
    response_encoding: BytesEncoding,
  }),
)

export const DeliveryDetail = named(
  'DeliveryDetail',
  Type.Object({
    ...delivery,
    attempts: Type.Array(refer(AttemptSchema), { description: 'The first 100.' }),
    attempts_next_cursor: Nullable(
      Type.String({ description: 'Give it as ?cursor to /v1/deliveries/:id/attempts; null: these are all.' }),
    ),
  }),
)

export const AttemptQuery = Type.Object(pageQuery, { additionalProperties: false })

export const DeliveryQuery = Type.Object(
  {
    ...pageQuery,
    ...timeQuery,
    state: Type.Optional(DeliveryState),
    kind: Type.Optional(delivery.kind),
    event_id: Type.Optional(Uuid),
    event_type: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 257,
        pattern: '^[^\\u0000]+$',
        description: 'Exactly <resource>.<event>, of events that the hub still keeps.',
      }),
    ),
    reason: Type.Optional(DeadLetterReason),
    last_status: Type.Optional(Type.Integer({ minimum: 100, maximum: 599, title: 'a whole number from 100 to 599' })),
  },
  { additionalProperties: false },
)

/** What operators see: whose it is, too. */
export const DeadLetterSchema = named('DeadLetter', Type.Object({ tenant_id: Type.String(), ...delivery }))

export const DeadLetterQuery = Type.Object(
  {
    ...pageQuery,
    ...timeQuery,
    tenant_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256, pattern: '^[^\\u0000]+$' })),
    subscription_id: Type.Optional(Uuid),
    reason: Type.Optional(DeadLetterReason),
  },
  { additionalProperties: false },
)

export type DeliveryJson = Static<typeof DeliverySchema>
export type AttemptJson = Static<typeof AttemptSchema>
