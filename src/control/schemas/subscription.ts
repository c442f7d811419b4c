// The subscription of the API: what is written, what is read.
import { Type, type Static } from 'typebox'
import { formatDuration } from '../../base/duration.ts'
import { MAX_SCHEDULE_STEPS, MAX_STEP_MS } from '../../dispatch/backoff.ts'
import {
  DurationText,
  EventPattern,
  Line,
  Nullable,
  SourceName,
  Timestamp,
  UrlText,
  Uuid,
  named,
  pageQuery,
  told,
  timeQuery,
} from './common.ts'
import { NewSink, SinkPatch, SinkSchema } from './sink.ts'

const MAX_EVENT_TYPES = 100
const MAX_SCHEMA_MAJOR = 2 ** 31 - 1

const Name = Line('a name', 200)
const SchemaMajor = Type.Integer({ minimum: 0, maximum: MAX_SCHEMA_MAJOR })
const EventTypes = Type.Array(EventPattern, { minItems: 1, maxItems: MAX_EVENT_TYPES })
const RetrySchedule = Type.Array(DurationText('0s', formatDuration(MAX_STEP_MS)), {
  minItems: 1,
  maxItems: MAX_SCHEDULE_STEPS,
  title: `a list of 1 to ${MAX_SCHEDULE_STEPS} durations`,
  description: 'The longest delay before each attempt; null: the default curve.',
  examples: [['0s', '5s', '1m']],
})
const Metadata = Type.Record(Type.String(), Type.Unknown(), { description: "The caller's own; at most 16 KiB." })
const ContentMode = Type.Enum(['binary', 'structured'])
const Ordering = Type.Enum(['fifo', 'strict', 'parallel'])
const VerificationState = Type.Enum(['pending', 'active', 'failed'])

const closed = { additionalProperties: false }

export const CreateSubscription = Type.Object(
  {
    name: Name,
    enabled: Type.Optional(Type.Boolean({ default: true })),
    origin: Type.Optional(Nullable(SourceName)),
    event_types: EventTypes,
    schema_major: Type.Optional(Nullable(SchemaMajor)),
    sink: NewSink,
    content_mode: Type.Optional(ContentMode),
    ordering: Type.Optional(Ordering),
    retry_schedule: Type.Optional(Nullable(RetrySchedule)),
    metadata: Type.Optional(Metadata),
  },
  {
    ...closed,
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
    enabled: Type.Optional(Nullable(Type.Boolean())),
    origin: Type.Optional(Nullable(SourceName)),
    event_types: Type.Optional(EventTypes),
    schema_major: Type.Optional(Nullable(SchemaMajor)),
    sink: Type.Optional(SinkPatch),
    content_mode: Type.Optional(Nullable(ContentMode)),
    ordering: Type.Optional(Nullable(Ordering)),
    retry_schedule: Type.Optional(Nullable(RetrySchedule)),
    metadata: Type.Optional(Nullable(Metadata)),
  },
  { ...closed, examples: [{ enabled: false }, { sink: { headers: { 'x-env': 'prod', 'x-old': null } } }] },
)

const readable = {
  id: Uuid,
  name: Type.String(),
  enabled: Type.Boolean(),
  verification_state: VerificationState,
  origin: Nullable(Type.String()),
  event_types: Type.Array(Type.String()),
  schema_major: Nullable(Type.Integer()),
  sink: SinkSchema,
  content_mode: ContentMode,
  ordering: Ordering,
  retry_schedule: Nullable(Type.Array(Type.String())),
  disabled_reason: Nullable(
    Type.String({ description: 'Why it is switched off: by the hub, or by its owner who gave a reason; else null.' }),
  ),
  disabled_at: Nullable(Timestamp),
  metadata: Metadata,
  created_at: Timestamp,
  updated_at: Timestamp,
}

export const SubscriptionSchema = named('Subscription', Type.Object(readable))

const SigningSecret = Type.String({ description: 'Shown only here.', examples: ['whsec_…'] })

export const SubscriptionCreated = named(
  'SubscriptionCreated',
  Type.Object({ ...readable, signing_secret: SigningSecret }),
)

export const SubscriptionQuery = Type.Object(
  {
    ...pageQuery,
    enabled: Type.Optional(Type.Boolean()),
    verification_state: Type.Optional(VerificationState),
    origin: Type.Optional(SourceName),
    event_type: Type.Optional(told(EventPattern, 'One of its `event_types`, as it is written there.')),
    sink_url: Type.Optional(told(UrlText, 'Where it delivers to, in any spelling of the URL.')),
    name: Type.Optional(told(Line('what names begin with', 200), 'What its name begins with.')),
    ...timeQuery,
  },
  closed,
)

export const VerificationSchema = named(
  'Verification',
  Type.Object({
    verified: Type.Boolean({ description: 'Whether the probe worked.' }),
    outcome: Type.Enum(['delivered', 'failed']),
    status: Nullable(Type.Integer({ description: "The receiver's HTTP status." })),
    error_class: Nullable(Type.String()),
    error_detail: Nullable(Type.String()),
    subscription: Type.Object(readable),
  }),
)

/** `overlap`: how long the secrets before it go on signing, 24h by default, 30d at most. The body may be left out. */
export const RotateSecret = Type.Object(
  {
    overlap: Type.Optional(DurationText('0s', '30d')),
  },
  closed,
)

/** The body may be left out. */
export const PauseSubscription = Type.Object(
  { reason: Type.Optional(Nullable(Line('a reason', 500))) },
  { ...closed, examples: [{ reason: 'the ledger is being migrated' }] },
)

export const SecretRotated = named(
  'SecretRotated',
  Type.Object({ signing_secret: SigningSecret, old_secrets_expire_at: Timestamp }),
)

export type CreateSubscriptionBody = Static<typeof CreateSubscription>
export type PatchSubscriptionBody = Static<typeof PatchSubscription>
export type SubscriptionJson = Static<typeof SubscriptionSchema>
