// What operators see: across tenants, and of the hub itself.
import { Type, type Static, type TSchema } from 'typebox'
import { REASON_CODES } from '../../event/reason.ts'
import { QUARANTINE_GROUPS } from '../../store/quarantine.ts'
import {
  Count,
  Flag,
  Nullable,
  SourceName,
  Text,
  Timestamp,
  Uuid,
  named,
  pageQuery,
  timeQuery,
  told,
} from './common.ts'

const closed = { additionalProperties: false }

export const RawHeaders = Type.Array(
  Type.Object({
    name: Nullable(
      Type.String(),
      'For reading: bytes that are not UTF-8 are replaced by U+FFFD. Null: it has no name.',
    ),
    value: Nullable(Type.String(), 'For reading, like the name. Null: it has no value.'),
    name_base64: Nullable(Type.String(), "The name's bytes, as base64; null: it has no name."),
    value_base64: Nullable(Type.String(), "The value's bytes, as base64; null: it has no value."),
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
        description: `What is counted together: what has these in common. Any of ${groups.join(', ')}, separated by commas.`,
      }),
    ),
    bucket: Type.Optional(
      Type.Enum(['hour', 'day'], {
        description: 'Counts for each hour or day (UTC), the newest first; none given: over all time.',
      }),
    ),
    limit: told(pageQuery.limit, 'The most groups of an answer.'),
  }
}

/** What a request for counts answers; an item has those of `groups` that were asked for. */
export function countsOf<Groups extends Record<string, TSchema>>(name: string, groups: Groups) {
  const item = Type.Object({
    ...Type.Partial(Type.Object(groups)).properties,
    bucket: Type.Optional(told(Timestamp, 'When the hour or day begins; only where ?bucket was asked for.')),
    count: Count('How many there are.'),
    last_at: told(Timestamp, 'The time of the newest one.'),
  })
  const items = Type.Array(item, { description: 'The largest group first; in buckets, the newest bucket first.' })
  const more = Flag('There are more groups than ?limit.')
  return named(`${name}s`, Type.Object({ items, more }, { description: 'How many have what in common' }))
}

export const QuarantinedSchema = named(
  'QuarantinedRecord',
  Type.Object(
    {
      id: told(Uuid, "The record's id here, a UUID of when it was quarantined."),
      quarantined_at: told(Timestamp, 'When the hub refused it: retention counts from here.'),
      reason: Text('Why, as a code of docs/errors.md.'),
      detail: Text('What was found, in a sentence.'),
      source: Nullable(Type.String(), 'The producing application, by its topic; null: it cannot be told.'),
      topic: Text('The topic that it was read from, or would have been written to; empty: none can be told.'),
      partition: Nullable(Type.Integer(), 'The partition of the topic; null: it came by HTTP.'),
      offset: Nullable(Type.Integer(), 'Its offset in the partition; null: it came by HTTP.'),
      record_time: Nullable(Timestamp, "The record's own time; null: it has none."),
      key_base64: Nullable(Type.String(), "The record's key, as base64; null: it has none."),
      headers: RawHeaders,
      value_base64: Nullable(Type.String(), "The record's value, as base64; null: it has none."),
      value_bytes: Count('The size of the value in bytes; 0 where it has none.'),
    },
    { description: 'A record that is no event, whole' },
  ),
)

const Reason = Type.Enum([...REASON_CODES], { description: 'Only what was quarantined for this reason.' })
const OfSource = told(SourceName, 'Only of this producing application.')

export const QuarantineQuery = Type.Object(
  {
    ...pageQuery,
    ...timeQuery,
    reason: Type.Optional(Reason),
    source: Type.Optional(OfSource),
  },
  closed,
)

export const QuarantineCountQuery = Type.Object(
  {
    ...timeQuery,
    reason: Type.Optional(Reason),
    source: Type.Optional(OfSource),
    ...countQuery(QUARANTINE_GROUPS, 'reason,source'),
  },
  closed,
)

export const QuarantineCounts = countsOf('QuarantineCount', {
  reason: Nullable(Type.String(), 'The reason that they have in common; only where ?by asks for it.'),
  source: Nullable(
    Type.String(),
    'The source that they have in common; only where ?by asks for it. Null: none can be told.',
  ),
})

export const BreakerState = Type.Enum(['closed', 'open', 'half_open'], {
  description:
    'closed: deliveries go out; open: none does before `blocked_until`; half_open: one goes out to see whether others may follow.',
})

export const BreakerSchema = named(
  'Breaker',
  Type.Object(
    {
      key: Text('Names it in POST /admin/breakers/{key}/reset.'),
      tenant_id: Text('The tenant whose deliveries it holds back.'),
      destination_key: Text('The destination: what the URLs of several subscriptions may have in common.'),
      state: BreakerState,
      failures: Count('Failed attempts in a row.'),
      opened: Count('How many times it opened since it was last closed.'),
      blocked_until: Nullable(Timestamp, 'Nothing is tried before; null: nothing is held back.'),
    },
    { description: "The circuit breaker of one tenant's destination" },
  ),
)

export const BreakerQuery = Type.Object({ ...pageQuery, state: Type.Optional(BreakerState) }, closed)

export const BreakerParams = Type.Object({
  key: Type.String({ minLength: 1, maxLength: 1024, description: 'The `key` of a breaker in the list.' }),
})

export const TenantSchema = named(
  'Tenant',
  Type.Object(
    {
      tenant_id: Text("The tenant's id."),
      subscriptions: Count('How many it has.'),
      backlog: Count('Unfinished deliveries; counted up to 10000 a subscription.'),
      backlog_is_exact: Flag('False: there are more than were counted.'),
      oldest_queued_at: Nullable(Timestamp, 'When the oldest unfinished delivery was made; null: there is none.'),
      open_breakers: Count('How many of its breakers are not closed.'),
    },
    { description: 'What waits for a tenant' },
  ),
)

export const TenantQuery = Type.Object(pageQuery, closed)

export const PartitionLagSchema = named(
  'PartitionLag',
  Type.Object(
    {
      group: Text("The consumer group: the facts', or the producers' dead letters'."),
      topic: Text('The topic.'),
      partition: Type.Integer({ description: 'The number of the partition in it.' }),
      position: Nullable(Type.Integer(), 'The next offset to be read; null: not known yet.'),
      committed: Nullable(
        Type.Integer(),
        'The offset that reading begins at after a restart; null: none is committed.',
      ),
      end: Nullable(Type.Integer(), 'The first offset that cannot be read yet; null: not known yet.'),
      lag: Nullable(Type.Integer(), 'Records that are still to be read; null: not known yet.'),
      failures: Count('Failed tries in a row.'),
      problem: Nullable(Type.String(), 'Why it does not go on; null: it does.'),
      last_progress_at: told(Timestamp, 'When it last went on, or had nothing to read.'),
    },
    { description: 'A partition that this process reads' },
  ),
)

export const TopicSchema = named(
  'Topic',
  Type.Object(
    {
      topic: Text('Its name.'),
      kind: Type.Enum(['facts', 'dead_letters', 'commands', 'other'], { description: "By the topic's name." }),
      state: Type.Enum(['subscribed', 'sick', 'ignored', 'foreign'], {
        description:
          'subscribed: read; sick: the broker reports it as broken, and what is healthy of it is read; ignored: commands, never read; foreign: not in the grammar of names.',
      }),
      problem: Nullable(Type.String(), 'What the broker says of a sick one; null: nothing.'),
      partitions: Count('How many it has.'),
      max_message_bytes: Nullable(
        Type.Integer(),
        'The largest record in bytes that it takes; null: not known, or an ACL forbids the question.',
      ),
      dead_letters: Nullable(
        Type.Enum(['ok', 'missing', 'too_small', 'unknown']),
        'Of a topic of facts: whether its dead letters have room. missing: there is no such topic; too_small: it takes smaller messages than this one; unknown: a limit is not known. Null: it is no topic of facts.',
      ),
    },
    { description: "A topic of the broker's" },
  ),
)

export type QuarantinedJson = Static<typeof QuarantinedSchema>
export type BreakerJson = Static<typeof BreakerSchema>
export type TenantJson = Static<typeof TenantSchema>
export type PartitionLagJson = Static<typeof PartitionLagSchema>
export type TopicJson = Static<typeof TopicSchema>
