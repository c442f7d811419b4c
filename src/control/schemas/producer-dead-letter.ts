// Producers' dead letters of the API.
import { Type, type Static } from 'typebox'
import { DEAD_LETTER_GROUPS } from '../../store/producer-dead-letters.ts'
import { Nullable, SourceName, Timestamp, Uuid, named, pageQuery, timeQuery } from './common.ts'
import { countQuery, countsOf, RawHeaders } from './operators.ts'

const closed = { additionalProperties: false }

/** As it is shown: what does not print is written as \u{…} there. */
const Shown = Type.Optional(
  Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]+$', title: 'a text of 1 to 512 characters' }),
)

const filters = {
  ...timeQuery,
  source: Type.Optional(SourceName),
  tenant_id: Shown,
  cause_kind: Shown,
  error_class: Shown,
  event_type: Shown,
}

const Text = Nullable(Type.String())
const WholeNumber = Nullable(Type.Integer())

const deadLetter = {
  id: Uuid,
  seen_at: Type.String({ ...Timestamp, description: 'When the hub found it: retention counts from here.' }),
  source: Type.String({ description: 'The application in whose topic it was found.' }),
  topic: Type.String(),
  partition: Type.Integer(),
  offset: Type.Integer(),
  record_time: Nullable(Timestamp),
  tenant_id: Text,
  event_id: Text,
  event_type: Type.Union([Type.String({ description: '<resource>.<event>.' }), Type.Null()]),
  event_source: Nullable(Type.String({ description: 'The ce-source, which may be another one.' })),
  source_topic: Text,
  source_partition: WholeNumber,
  source_offset: WholeNumber,
  error_class: Text,
  error_message: Text,
  cause_kind: Text,
  retry_count: WholeNumber,
  first_failure_at: Nullable(Timestamp),
  producer_id: Text,
  payload_omitted: Nullable(Type.Boolean()),
  payload_bytes: Nullable(Type.Integer({ description: 'Of the payload that was omitted.' })),
  body_bytes: Nullable(Type.Integer({ description: 'Of the record’s body; null: it has none.' })),
}

export const ProducerDeadLetterSchema = named(
  'ProducerDeadLetter',
  Type.Object(deadLetter, {
    description: 'What its headers say is null where it is absent or cannot be read, and never trusted further.',
  }),
)

export const ProducerDeadLetterDetail = named(
  'ProducerDeadLetterDetail',
  Type.Object({
    ...deadLetter,
    key_base64: Text,
    headers: RawHeaders,
    body: Nullable(Type.String({ description: 'Null where it is not UTF-8.' })),
    body_base64: Text,
  }),
)

export const ProducerDeadLetterQuery = Type.Object({ ...pageQuery, ...filters }, closed)

export const ProducerDeadLetterCountQuery = Type.Object(
  { ...filters, ...countQuery(DEAD_LETTER_GROUPS, 'source') },
  closed,
)

export const ProducerDeadLetterCounts = countsOf('ProducerDeadLetterCount', {
  source: Text,
  cause_kind: Text,
  error_class: Text,
  tenant_id: Text,
  event_type: Text,
})

export type ProducerDeadLetterJson = Static<typeof ProducerDeadLetterSchema>
export type ProducerDeadLetterDetailJson = Static<typeof ProducerDeadLetterDetail>
