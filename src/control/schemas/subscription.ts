// The subscription of the API: what is written, what is read.
import { Type, type Static } from 'typebox'
import { formatDuration } from '../../base/duration.ts'
import { MAX_SCHEDULE_STEPS, MAX_STEP_MS } from '../../dispatch/backoff.ts'
import {
  DurationText,
  EventPattern,
  Flag,
  Line,
  Nullable,
  SourceName,
  Text,
  Timestamp,
  UrlText,
  Uuid,
  named,
  pageQuery,
  timeQuery,
  told,
} from './common.ts'
import { NewSink, SinkPatch, SinkSchema } from './sink.ts'

const MAX_EVENT_TYPES = 100
const MAX_SCHEMA_MAJOR = 2 ** 31 - 1

const Name = told(Line('a name', 200), 'For people: what it is for.')
const Enabled = 'False: it is switched off, and matches nothing.'
const Origin = 'The one producing application whose events it wants; null: all.'
const OneMajor = 'The one major version of the schema that it wants; null: all.'
const SchemaMajor = Type.Integer({ minimum: 0, maximum: MAX_SCHEMA_MAJOR })
const EventTypes = Type.Array(EventPattern, {
  minItems: 1,
  maxItems: MAX_EVENT_TYPES,
  description: 'The types that it wants: <resource>.<event>, <resource>.* or *. One that fits is enough.',
})
const Schedule = 'The longest delay before each attempt; null: the default curve.'
const RetrySchedule = Type.Array(DurationText('0s', formatDuration(MAX_STEP_MS)), {
  minItems: 1,
  maxItems: MAX_SCHEDULE_STEPS,
  title: `a list of 1 to ${MAX_SCHEDULE_STEPS} durations`,
  examples: [['0s', '5s', '1m']],
})
const Metadata = Type.Record(Type.String(), Type.Unknown(), { description: "The caller's own; at most 16 KiB." })
const ContentMode = Type.Enum(['binary', 'structured'], {
  description: 'binary (the default): the data as it is, and headers; structured: a CloudEvents JSON envelope.',
})
const Ordering = Type.Enum(['fifo', 'strict', 'parallel'], {
  description:
    'fifo (the default): one after the other, and what fails steps aside; strict: what fails holds up the others; parallel: no order.',
})
const VerificationState = Type.Enum(['pending', 'active', 'failed'], {
  description: 'Whether the receiver has answered the challenge: only an active one matches.',
})

const closed = { additionalProperties: false }

export const CreateSubscription = Type.Object(
  {
    name: Name,
    enabled: Type.Optional(Type.Boolean({ default: true, description: Enabled })),
    origin: Type.Optional(Nullable(SourceName, Origin)),
    event_types: EventTypes,
    schema_major: Type.Optional(Nullable(SchemaMajor, OneMajor)),
    sink: told(NewSink, 'Where to, and how.'),
    content_mode: Type.Optional(ContentMode),
    ordering: Type.Optional(Ordering),
    retry_schedule: Type.Optional(Nullable(RetrySchedule, Schedule)),
    metadata: Type.Optional(Metadata),
  },
  {
    ...closed,
    description: 'The subscription to be made',
    examples: [
      {
        name: 'loan approvals to core',
        origin: 'lender',
        event_types: ['loan_application.approved'],
        sink: { kind: 'webhook', url: 'https://core.example.com/hooks/loans', timeout: '30s' },
      },
      {
        name: 'everything, with a credential and a secret header',
        event_types: ['*'],
        sink: {
          kind: 'webhook',
          url: 'https://core.example.com/hooks/all',
          headers: { 'x-env': 'prod', 'x-token': { value: 's3cr3t', secret: true } },
          auth: { kind: 'bearer', token: 's3cr3t' },
        },
      },
    ],
  },
)

/** A JSON merge patch (RFC 7396): null takes a field back to its default. */
export const PatchSubscription = Type.Object(
  {
    name: Type.Optional(Name),
    enabled: Type.Optional(Nullable(Type.Boolean(), `${Enabled} Null: on.`)),
    origin: Type.Optional(Nullable(SourceName, Origin)),
    event_types: Type.Optional(EventTypes),
    schema_major: Type.Optional(Nullable(SchemaMajor, OneMajor)),
    sink: Type.Optional(told(SinkPatch, 'What is to be changed in it.')),
    content_mode: Type.Optional(Nullable(ContentMode, 'How events are written; null: binary.')),
    ordering: Type.Optional(Nullable(Ordering, 'In which order they are sent; null: fifo.')),
    retry_schedule: Type.Optional(Nullable(RetrySchedule, Schedule)),
    metadata: Type.Optional(Nullable(Metadata, "The caller's own, merged like everything else; null: none.")),
  },
  {
    ...closed,
    description: 'What is to be changed; null takes a field back to its default',
    examples: [{ enabled: false }, { sink: { headers: { 'x-env': 'prod', 'x-old': null } } }],
  },
)

const readable = {
  id: told(Uuid, "The subscription's id."),
  name: Text('For people: what it is for.'),
  enabled: Flag(Enabled),
  verification_state: VerificationState,
  origin: Nullable(Type.String(), Origin),
  event_types: Type.Array(Type.String(), { description: 'The types that it wants, as they were written.' }),
  schema_major: Nullable(Type.Integer(), OneMajor),
  sink: SinkSchema,
  content_mode: ContentMode,
  ordering: Ordering,
  retry_schedule: Nullable(Type.Array(Type.String()), Schedule),
  disabled_reason: Nullable(
    Type.String(),
    'Why it is switched off: by the hub, or by its owner who gave a reason; else null.',
  ),
  disabled_at: Nullable(Timestamp, 'Since when it is switched off; null: it is not.'),
  metadata: Metadata,
  created_at: told(Timestamp, 'When it was made.'),
  updated_at: told(Timestamp, 'When it was last changed.'),
}

export const SubscriptionSchema = named(
  'Subscription',
  Type.Object(readable, { description: 'Which events, to which destination, how' }),
)

const SigningSecret = Type.String({
  description: 'What deliveries are signed with from now on: shown only here.',
  examples: ['whsec_…'],
})

export const SubscriptionCreated = named(
  'SubscriptionCreated',
  Type.Object({ ...readable, signing_secret: SigningSecret }, { description: 'A subscription as it is made' }),
)

export const SubscriptionQuery = Type.Object(
  {
    ...pageQuery,
    enabled: Type.Optional(Flag('Only those that are on, or off.')),
    verification_state: Type.Optional(VerificationState),
    origin: Type.Optional(told(SourceName, 'Only those that ask for this producing application by name.')),
    event_type: Type.Optional(told(EventPattern, 'One of its `event_types`, as it is written there.')),
    sink_url: Type.Optional(told(UrlText, 'Where it delivers to, in any spelling of the URL.')),
    name: Type.Optional(told(Line('what names begin with', 200), 'What its name begins with.')),
    ...timeQuery,
  },
  closed,
)

export const VerificationSchema = named(
  'Verification',
  Type.Object(
    {
      verified: Flag('Whether the probe worked.'),
      outcome: Type.Enum(['delivered', 'failed'], { description: 'How the challenge went, as an attempt.' }),
      status: Nullable(Type.Integer(), "The receiver's HTTP status; null: there was no answer."),
      error_class: Nullable(Type.String(), 'Why it failed, as a code of docs/errors.md; null: it did not.'),
      error_detail: Nullable(Type.String(), 'Why it failed, in a sentence without secrets; null: it did not.'),
      subscription: told(Type.Object(readable), 'The subscription as it is now.'),
    },
    { description: 'How a probe of the destination went' },
  ),
)

/** The body may be left out. */
export const RotateSecret = Type.Object(
  {
    overlap: Type.Optional(
      told(DurationText('0s', '30d'), 'How long the secrets before it go on signing; 24h where none is given.'),
    ),
  },
  {
    ...closed,
    'x-optional': true,
    description: 'How to go over to the new secret; the body may be left out',
    examples: [{ overlap: '1h' }],
  },
)

/** The body may be left out. */
export const PauseSubscription = Type.Object(
  { reason: Type.Optional(Nullable(Line('a reason', 500), 'Why, for whoever reads it later; null: not said.')) },
  {
    ...closed,
    'x-optional': true,
    description: 'The reason; the body may be left out',
    examples: [{ reason: 'the ledger is being migrated' }],
  },
)

export const SecretRotated = named(
  'SecretRotated',
  Type.Object(
    {
      signing_secret: SigningSecret,
      old_secrets_expire_at: told(Timestamp, 'Until then the old ones sign too.'),
    },
    { description: 'A new signing secret' },
  ),
)

export type CreateSubscriptionBody = Static<typeof CreateSubscription>
export type PatchSubscriptionBody = Static<typeof PatchSubscription>
export type SubscriptionJson = Static<typeof SubscriptionSchema>
