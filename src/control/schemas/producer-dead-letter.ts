// Producers' dead letters of the API.
import { Type, type Static } from 'typebox'
import { DEAD_LETTER_GROUPS } from '../../store/producer-dead-letters.ts'
import { Nullable, SourceName, Text, Timestamp, Uuid, named, pageQuery, timeQuery, told } from './common.ts'
import { countQuery, countsOf, RawHeaders } from './operators.ts'

const closed = { additionalProperties: false }

/** As it is shown: what does not print is written as \u{…} there. */
const Shown = (description: string) =>
  Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 512,
      pattern: '^[^\\u0000]+$',
      title: 'a text of 1 to 512 characters',
      description,
    }),
  )

const filters = {
  ...timeQuery,
  source: Type.Optional(told(SourceName, 'Only of this producing application.')),
  tenant_id: Shown('Only of this tenant, as the record names it.'),
  cause_kind: Shown('Only of this kind of cause, as the record names it.'),
  error_class: Shown('Only of this class of error, as the record names it.'),
  event_type: Shown('Only of this event type: exactly <resource>.<event>.'),
}

const MaybeText = (description: string) => Nullable(Type.String(), description)
const MaybeNumber = (description: string) => Nullable(Type.Integer(), description)

const deadLetter = {
  id: told(Uuid, "The dead letter's id here."),
  seen_at: told(Timestamp, 'When the hub found it: retention counts from here.'),
  source: Text('The application in whose topic it was found.'),
  topic: Text('The topic that it was found in.'),
  partition: Type.Integer({ description: 'The partition of that topic.' }),
  offset: Type.Integer({ description: 'Its offset in that partition.' }),
  record_time: Nullable(Timestamp, "The record's own time; null: it has none."),
  tenant_id: MaybeText('The tenant of the event that failed; null: not said.'),
  event_id: MaybeText('The ce-id of the event that failed; null: not said.'),
  event_type: MaybeText('<resource>.<event> of the event that failed; null: not said.'),
  event_source: MaybeText('The ce-source, which may be another one; null: not said.'),
  source_topic: MaybeText('The topic that the event was written to, or was to be; null: not said.'),
  source_partition: MaybeNumber('The partition of that topic; null: not said.'),
  source_offset: MaybeNumber('The offset in that partition; null: not said.'),
  error_class: MaybeText('The class of the error, in the producer’s words; null: not said.'),
  error_message: MaybeText('What the producer says went wrong; null: not said.'),
  cause_kind: MaybeText('The kind of the cause, in the producer’s words; null: not said.'),
  retry_count: MaybeNumber('How often the producer tried again; null: not said.'),
  first_failure_at: Nullable(Timestamp, 'When it failed for the first time; null: not said.'),
  producer_id: MaybeText('Which instance of the producer it was; null: not said.'),
  payload_omitted: Nullable(Type.Boolean(), 'Whether the producer left the payload out; null: not said.'),
  payload_bytes: MaybeNumber('The size in bytes of the payload that was omitted; null: not said.'),
  body_bytes: MaybeNumber('The size in bytes of the record’s body; null: it has none.'),
}

export const ProducerDeadLetterSchema = named(
  'ProducerDeadLetter',
  Type.Object(deadLetter, {
    description: 'What its headers say is null where it is absent or cannot be read, and never trusted further.',
  }),
)

export const ProducerDeadLetterDetail = named(
  'ProducerDeadLetterDetail',
  Type.Object(
    {
      ...deadLetter,
      key_base64: MaybeText("The record's key, as base64; null: it has none."),
      headers: RawHeaders,
      body: MaybeText("The record's body as text; null where it is not UTF-8, or has none."),
      body_base64: MaybeText("The record's body, as base64; null: it has none."),
    },
    { description: 'A producer’s dead letter, whole' },
  ),
)

export const ProducerDeadLetterQuery = Type.Object({ ...pageQuery, ...filters }, closed)

export const ProducerDeadLetterCountQuery = Type.Object(
  { ...filters, ...countQuery(DEAD_LETTER_GROUPS, 'source') },
  closed,
)

const Group = (what: string) =>
  MaybeText(`The ${what} that they have in common; only where ?by asks for it. Null: not said.`)

export const ProducerDeadLetterCounts = countsOf('ProducerDeadLetterCount', {
  source: Group('source'),
  cause_kind: Group('kind of cause'),
  error_class: Group('class of error'),
  tenant_id: Group('tenant'),
  event_type: Group('event type'),
})

export type ProducerDeadLetterJson = Static<typeof ProducerDeadLetterSchema>
export type ProducerDeadLetterDetailJson = Static<typeof ProducerDeadLetterDetail>
