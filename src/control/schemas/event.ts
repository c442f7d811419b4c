// Events of the API, and what HTTP ingest answers.
import { Type, type Static } from 'typebox'
import { REASON_CODES } from '../../event/reason.ts'
import { BytesEncoding, BytesText, DeliveryKind, DeliverySchema, DeliveryState } from './delivery.ts'
import {
  Count,
  DurationText,
  EventPattern,
  Flag,
  Nullable,
  SourceName,
  Text,
  Timestamp,
  Uuid,
  named,
  pageQuery,
  refer,
  told,
} from './common.ts'

const ofEvent = {
  id: told(Uuid, 'The ce-id.'),
  source: Text('The producing application: the ce-source.'),
  event_type: Text('What subscriptions ask for: <resource>.<event>.'),
  resource_type: Text('The part of `event_type` before the dot: the ce-resourcetype.'),
  schema_major: Type.Integer({ description: 'The major version in the ce-schemaversion.' }),
  attributes: Type.Record(Type.String(), Type.String(), {
    description: 'Every ce-* attribute by its name without the prefix.',
  }),
  traceparent: Nullable(Type.String(), "The producer's trace context (W3C); null: it sent none."),
  tracestate: Nullable(Type.String(), 'What goes with `traceparent`; null: it sent none.'),
  received_at: told(Timestamp, 'When the hub stored it.'),
  data_bytes: Count('The size of the data in bytes; 0 where it has none.'),
}

export const EventSchema = named(
  'Event',
  Type.Object(
    {
      ...ofEvent,
      data: BytesText('Its data as the producer wrote it', 'it has none'),
      data_encoding: BytesEncoding('data'),
      deliveries: Type.Array(refer(DeliverySchema), { description: 'The first 1000.' }),
    },
    { description: 'A stored event, with what became of it' },
  ),
)

export const PulledEventSchema = named(
  'PulledEvent',
  Type.Object(
    {
      ...ofEvent,
      data: Type.Optional(Type.Unknown({ description: 'Data that is JSON, byte for byte as it was sent.' })),
      data_base64: Type.Optional(Text('All other data. An event without data has neither.')),
    },
    { description: 'An event as the pull hands it out' },
  ),
)

export const PulledPage = Type.Object(
  {
    items: Type.Array(refer(PulledEventSchema), { description: 'In the order of arrival; may be empty.' }),
    next_cursor: Type.String({
      description: 'Where to go on, also at the end.',
      examples: ['WyJldmVudHMiLCI4MjcuMSJd'],
    }),
    has_more: Type.Boolean({ description: 'There is more to look at: ask again at once.', examples: [true] }),
  },
  { description: 'The next events' },
)

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
    wait: Type.Optional(
      told(
        DurationText('0s', '30s'),
        'How long to wait at the end for something to come; without it the answer comes at once.',
      ),
    ),
    origin: Type.Optional(told(SourceName, 'Only events of this producing application.')),
    event_type: Type.Optional(
      Type.Union([EventPattern, Type.Array(EventPattern, { minItems: 1, maxItems: MAX_PATTERNS })], {
        description: `What subscriptions may ask for; may be given up to ${MAX_PATTERNS} times.`,
      }),
    ),
  },
  { additionalProperties: false },
)

const MISMATCHES = [
  'deleted',
  'created_later',
  'disabled',
  'unverified',
  'origin',
  'event_type',
  'schema_major',
] as const

export const Explanation = named(
  'Explanation',
  Type.Object(
    {
      subscription_id: told(Uuid, 'The subscription that this is about.'),
      subscription_name: Text('Its name.'),
      matched: Flag('Whether nothing keeps it from matching, as the subscription is now.'),
      reasons: Type.Array(Type.Enum([...MISMATCHES]), {
        description:
          'Everything that keeps it from matching. created_later: there was no such subscription when the event arrived; deleted: there was, and it is gone.',
      }),
      delivery_ids: Type.Array(Uuid, {
        description: 'The deliveries that there are: what matched when the event arrived, and replays.',
      }),
      deliveries: Type.Array(
        Type.Object({ id: told(Uuid, "The delivery's id."), kind: DeliveryKind, state: DeliveryState }),
        { description: 'The same, with what has become of them.' },
      ),
    },
    { description: 'Whether an event matches a subscription, and why not' },
  ),
)

export const ExplainQuery = Type.Object(pageQuery, { additionalProperties: false })

export const IngestVerdict = named(
  'IngestVerdict',
  Type.Object(
    {
      verdict: Type.Enum(['accepted', 'duplicate', 'dropped', 'quarantined'], {
        description:
          'accepted: stored; duplicate: its id was stored before; dropped: a system event, of which nothing is kept; quarantined: malformed, kept for operators, and never delivered.',
      }),
      id: Nullable(Uuid, 'The ce-id of an accepted event or a duplicate; null: it is neither.'),
      reason: Nullable(
        Type.Enum([...REASON_CODES]),
        'Why it is quarantined, as a code of docs/errors.md; null: it is not.',
      ),
      detail: Nullable(Type.String(), 'What was found in a quarantined one; null: it is none.'),
    },
    { description: 'What became of one event' },
  ),
)

export const Ingested = Type.Object(
  { items: Type.Array(refer(IngestVerdict), { description: "In the request's order." }) },
  { description: 'A verdict on each event; all of it is stored' },
)

export type EventJson = Static<typeof EventSchema>
export type PulledEventJson = Static<typeof PulledEventSchema>
export type ExplanationJson = Static<typeof Explanation>
export type IngestVerdictJson = Static<typeof IngestVerdict>
