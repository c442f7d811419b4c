// What operators see: across tenants, and of the hub itself.
import { Type, type Static, type TSchema } from 'typebox'
import { REASON_CODES } from '../../event/reason.ts'
import { QUARANTINE_GROUPS } from '../../store/quarantine.ts'
import { Nullable, SourceName, Timestamp, Uuid, named, pageQuery, timeQuery } from './common.ts'

const closed = { additionalProperties: false }

export const RawHeaders = Type.Array(
  Type.Object({
    name: Nullable(Type.String()),
    value: Nullable(Type.String({ description: 'For reading: bytes that are not UTF-8 are replaced by U+FFFD.' })),
    name_base64: Nullable(Type.String()),
    value_base64: Nullable(Type.String()),
  }),
  { description: 'As they came: in order, with duplicates.' },
)

/** Of counts: by what, over time too, and how many groups. */
export function countQuery(groups: readonly string[], fallback: string) {
  const group = `(${groups.join('|')})`
  return {
    by: Type.Optional(
      Type.String({
        pattern: `^${group}(,${group})*$`,
        title: `one or several of ${groups.join(', ')}, separated by commas`,
        default: fallback,
      }),
    ),
    bucket: Type.Optional(
      Type.Enum(['hour', 'day'], {
        description: 'Counts for each hour or day (UTC), the newest first; none given: over all time.',
      }),
    ),
    limit: pageQuery.limit,
  }
}

/** What a request for counts answers; an item has those of `groups` that were asked for. */
export function countsOf<Groups extends Record<string, TSchema>>(name: string, groups: Groups) {
  const item = Type.Object({
    ...Type.Partial(Type.Object(groups)).properties,
    bucket: Type.Optional(Type.String({ ...Timestamp, description: 'When the hour or day begins.' })),
    count: Type.Integer(),
    last_at: Type.String({ ...Timestamp, description: 'Of the newest one.' }),
  })
  const more = Type.Boolean({ description: 'There are more groups than ?limit.' })
  return named(`${name}s`, Type.Object({ items: Type.Array(item), more }))
}

export const QuarantinedSchema = named(
  'QuarantinedRecord',
  Type.Object({
    id: Uuid,
    quarantined_at: Timestamp,
    reason: Type.String(),
    detail: Type.String(),
    source: Nullable(Type.String()),
    topic: Type.String(),
    partition: Nullable(Type.Integer()),
    offset: Nullable(Type.Integer()),
    record_time: Nullable(Timestamp),
    key_base64: Nullable(Type.String()),
    headers: RawHeaders,
    value_base64: Nullable(Type.String()),
    value_bytes: Type.Integer(),
  }),
)

export const QuarantineQuery = Type.Object(
  {
    ...pageQuery,
    ...timeQuery,
    reason: Type.Optional(Type.Enum([...REASON_CODES])),
    source: Type.Optional(SourceName),
  },
  closed,
)

export const QuarantineCountQuery = Type.Object(
  {
    ...timeQuery,
    reason: Type.Optional(Type.Enum([...REASON_CODES])),
    source: Type.Optional(SourceName),
    ...countQuery(QUARANTINE_GROUPS, 'reason,source'),
  },
  closed,
)

export const QuarantineCounts = countsOf('QuarantineCount', {
  reason: Nullable(Type.String()),
  source: Nullable(Type.String()),
})

export const BreakerSchema = named(
  'Breaker',
  Type.Object({
    key: Type.String({ description: 'Names it in POST /admin/breakers/{key}/reset.' }),
    tenant_id: Type.String(),
    destination_key: Type.String(),
    state: Type.Enum(['closed', 'open', 'half_open']),
    failures: Type.Integer({ description: 'In a row.' }),
    opened: Type.Integer({ description: 'How many times it opened since it was last closed.' }),
    blocked_until: Nullable(Timestamp),
  }),
)

export const BreakerQuery = Type.Object(
  { ...pageQuery, state: Type.Optional(Type.Enum(['closed', 'open', 'half_open'])) },
  closed,
)

export const BreakerParams = Type.Object({ key: Type.String({ minLength: 1, maxLength: 1024 }) })

export const TenantSchema = named(
  'Tenant',
  Type.Object({
    tenant_id: Type.String(),
    subscriptions: Type.Integer(),
    backlog: Type.Integer({ description: 'Unfinished deliveries; counted up to 10000 a subscription.' }),
    backlog_is_exact: Type.Boolean(),
    oldest_queued_at: Nullable(Timestamp),
    open_breakers: Type.Integer(),
  }),
)

export const TenantQuery = Type.Object(pageQuery, closed)

export const PartitionLagSchema = named(
  'PartitionLag',
  Type.Object({
    group: Type.String({ description: "The consumer group: the facts', or the producers' dead letters'." }),
    topic: Type.String(),
    partition: Type.Integer(),
    position: Nullable(Type.Integer({ description: 'The next offset to be read.' })),
    committed: Nullable(Type.Integer()),
    end: Nullable(Type.Integer({ description: 'The first offset that cannot be read yet.' })),
    lag: Nullable(Type.Integer()),
    failures: Type.Integer({ description: 'In a row.' }),
    problem: Nullable(Type.String()),
    last_progress_at: Timestamp,
  }),
)

export const TopicSchema = named(
  'Topic',
  Type.Object({
    topic: Type.String(),
    kind: Type.Enum(['facts', 'dead_letters', 'commands', 'other'], { description: "By the topic's name." }),
    state: Type.Enum(['subscribed', 'sick', 'ignored', 'foreign'], {
      description:
        'subscribed: read; sick: the broker reports it as broken, and what is healthy of it is read; ignored: commands, never read; foreign: not in the grammar of names.',
    }),
    problem: Nullable(Type.String({ description: 'What the broker says of a sick one.' })),
    partitions: Type.Integer(),
    max_message_bytes: Nullable(Type.Integer({ description: 'Null: not known, or an ACL forbids the question.' })),
    dead_letters: Nullable(
      Type.Enum(['ok', 'missing', 'too_small', 'unknown'], {
        description:
          'Of a topic of facts: whether its dead letters have room. missing: there is no such topic; too_small: it takes smaller messages than this one; unknown: a limit is not known.',
      }),
    ),
  }),
)

export type QuarantinedJson = Static<typeof QuarantinedSchema>
export type BreakerJson = Static<typeof BreakerSchema>
export type TenantJson = Static<typeof TenantSchema>
export type PartitionLagJson = Static<typeof PartitionLagSchema>
export type TopicJson = Static<typeof TopicSchema>
