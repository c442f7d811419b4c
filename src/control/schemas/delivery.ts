// Deliveries and attempts of the API.
import { Type, type Static } from 'typebox'
import { Count, Nullable, Text, Timestamp, Uuid, named, pageQuery, refer, timeQuery, told } from './common.ts'

export const DeliveryState = Type.Enum(['queued', 'retrying', 'delivered', 'dead_lettered'], {
  description:
    'queued: not tried yet; retrying: tried, and to be tried again; delivered: answered by a 2xx; dead_lettered: given up.',
})
export const DeliveryKind = Type.Enum(['event', 'replay', 'test'], {
  description: 'event: its event matched when it arrived; replay: delivered once more; test: sent by hand.',
})
const DeadLetterReason = Type.Enum(['exhausted', 'poisoned', 'cancelled'], {
  description:
    'exhausted: every step of the schedule failed; poisoned: its worker crashed with it five times in a row; cancelled: its subscription is gone.',
})
/** Bytes as text where they are UTF-8, else as base64. */
export const BytesText = (what: string, none: string) =>
  Nullable(Type.String(), `${what}, as its encoding says; null: ${none}.`)
export const BytesEncoding = (of: string) =>
  Nullable(
    Type.Enum(['utf-8', 'base64']),
    `How \`${of}\` is written: as text where it is UTF-8, else as base64; null as it is.`,
  )

const delivery = {
  id: told(Uuid, "The delivery's id."),
  event_id: told(Uuid, 'The `ce-id` of the event that it carries.'),
  subscription_id: told(Uuid, 'The subscription that it is for.'),
  kind: DeliveryKind,
  replay_of: Nullable(Uuid, 'The finished delivery that it repeats; null: it repeats none.'),
  replay_id: Nullable(Uuid, 'The replay that made it; null: an event, a test, or a retry by hand.'),
  state: DeliveryState,
  reason: Nullable(DeadLetterReason, 'Why it was given up; null: it is not dead-lettered.'),
  attempt_count: Count('Attempts that were started.'),
  next_attempt_at: Nullable(Timestamp, 'It is not tried before; null: it is finished.'),
  created_at: told(Timestamp, 'When it was made.'),
  finished_at: Nullable(Timestamp, 'When it was delivered or given up; null: it is on its way.'),
  last_status: Nullable(Type.Integer(), 'The HTTP status of the last attempt; null: there was none, or no answer.'),
  last_error: Nullable(Type.String(), 'What the last failed attempt met, in a sentence; null: none failed.'),
}

export const DeliverySchema = named(
  'Delivery',
  Type.Object(delivery, { description: 'One event on its way to one subscription, or there' }),
)

export const AttemptSchema = named(
  'Attempt',
  Type.Object(
    {
      delivery_id: told(Uuid, 'The x-lerian-delivery-id that it went out with.'),
      number: Type.Integer({ minimum: 1, description: '1 for the first: the x-lerian-attempt that it went out with.' }),
      started_at: told(Timestamp, 'When it was sent.'),
      duration_ms: Nullable(Type.Integer(), 'Milliseconds until its outcome was known; null: it is not known.'),
      outcome: Type.Enum(['delivered', 'failed', 'outcome_unknown'], {
        description: 'outcome_unknown: its worker was gone before it could say; it may have arrived.',
      }),
      status: Nullable(Type.Integer(), "The receiver's HTTP status; null: there was no answer."),
      error_class: Nullable(Type.String(), 'Why it failed, as a code of docs/errors.md; null: it did not.'),
      error_detail: Nullable(Type.String(), 'Why it failed, in a sentence without secrets; null: it did not.'),
      response: BytesText('The first 4 KiB of what the receiver answered', 'there was no answer'),
      response_encoding: BytesEncoding('response'),
    },
    { description: 'One request to the receiver' },
  ),
)

export const DeliveryDetail = named(
  'DeliveryDetail',
  Type.Object(
    {
      ...delivery,
      attempts: Type.Array(refer(AttemptSchema), { description: 'The first 100.' }),
      attempts_next_cursor: Nullable(
        Type.String(),
        'Give it as ?cursor to /v1/deliveries/:id/attempts; null: these are all.',
      ),
    },
    { description: 'A delivery with its attempts' },
  ),
)

export const AttemptQuery = Type.Object(pageQuery, { additionalProperties: false })

export const DeliveryQuery = Type.Object(
  {
    ...pageQuery,
    ...timeQuery,
    state: Type.Optional(DeliveryState),
    kind: Type.Optional(DeliveryKind),
    event_id: Type.Optional(told(Uuid, 'Only deliveries of this event.')),
    event_type: Type.Optional(
      Type.String({
        minLength: 3,
        maxLength: 257,
        pattern: '^[^\\u0000]+$',
        description: 'Exactly <resource>.<event>, of events that the hub still keeps.',
      }),
    ),
    reason: Type.Optional(DeadLetterReason),
    last_status: Type.Optional(
      Type.Integer({
        minimum: 100,
        maximum: 599,
        title: 'a whole number from 100 to 599',
        description: 'Only those whose last attempt was answered with this HTTP status.',
      }),
    ),
  },
  { additionalProperties: false },
)

/** What operators see: whose it is, too. */
export const DeadLetterSchema = named(
  'DeadLetter',
  Type.Object(
    { tenant_id: Text('The tenant whose event and subscription they are.'), ...delivery },
    { description: 'A delivery that was given up, with its tenant' },
  ),
)

export const DeadLetterQuery = Type.Object(
  {
    ...pageQuery,
    ...timeQuery,
    tenant_id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 256, pattern: '^[^\\u0000]+$', description: 'Only of this tenant.' }),
    ),
    subscription_id: Type.Optional(told(Uuid, 'Only of this subscription.')),
    reason: Type.Optional(DeadLetterReason),
  },
  { additionalProperties: false },
)

export type DeliveryJson = Static<typeof DeliverySchema>
export type AttemptJson = Static<typeof AttemptSchema>
