// The replay of a range in the API.
import { Type, type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, named, pageQuery } from './common.ts'

const State = Type.Enum(['dead_lettered', 'delivered'])
const Count = (description: string) => Type.Integer({ minimum: 0, description })

const range = {
  subscription_id: Uuid,
  since: Type.String({ ...Timestamp, description: 'Events that arrived at or after it.' }),
  until: Type.String({ ...Timestamp, description: 'Events that arrived before it.' }),
  states: Type.Array(State),
}

export const CreateReplay = Type.Object(
  {
    since: Type.String({ ...Timestamp, description: 'Events that arrived at or after it.' }),
    until: Type.Optional(
      Type.String({
        ...Timestamp,
        description: 'Events that arrived before it. None given, or one in the future: now.',
      }),
    ),
    states: Type.Optional(
      Type.Array(State, {
        minItems: 1,
        maxItems: 2,
        title: 'a list of dead_lettered, delivered or both',
        default: ['dead_lettered'],
        description: 'What became of the event: the state of its newest finished delivery to this subscription.',
      }),
    ),
    dry_run: Type.Optional(Type.Boolean({ default: false, description: 'Only count.' })),
  },
  {
    additionalProperties: false,
    examples: [{ since: '2026-05-14T00:00:00Z', until: '2026-05-15T00:00:00Z', states: ['dead_lettered'] }],
  },
)

/** What a dry run answers. */
export const ReplayCountSchema = named(
  'ReplayCount',
  Type.Object({ ...range, total: Count('Events that would be delivered again.') }),
)

export const ReplaySchema = named(
  'Replay',
  Type.Object({
    id: Uuid,
    ...range,
    status: Type.Enum(['running', 'done', 'cancelled']),
    total: Count('Events to deliver again, as counted when it was made; exact once all of them are queued or skipped.'),
    queued: Count('Of them, so far, those queued again.'),
    skipped: Count('Of them, so far, those that the hub no longer keeps.'),
    delivered: Count('Of the queued ones those delivered, as of a few seconds ago.'),
    dead_lettered: Count('Of the queued ones those dead-lettered.'),
    unfinished: Count('Of the queued ones those still on their way.'),
    created_at: Timestamp,
    updated_at: Timestamp,
    finished_at: Nullable(Timestamp),
  }),
)

export const ReplayQuery = Type.Object(pageQuery, { additionalProperties: false })

export type ReplayCountJson = Static<typeof ReplayCountSchema>
export type ReplayJson = Static<typeof ReplaySchema>
