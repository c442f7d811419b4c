// The replay of a range in the API.
import { Type, type Static } from 'typebox'
import { Count, Nullable, Timestamp, Uuid, named, pageQuery, told } from './common.ts'

const State = Type.Enum(['dead_lettered', 'delivered'])
const Since = told(Timestamp, 'Events that arrived at or after it.')

const range = {
  subscription_id: told(Uuid, 'The subscription whose deliveries are made again.'),
  since: Since,
  until: told(Timestamp, 'Events that arrived before it.'),
  states: Type.Array(State, { description: 'What had become of the events that it takes.' }),
}

export const CreateReplay = Type.Object(
  {
    since: Since,
    until: Type.Optional(told(Timestamp, 'Events that arrived before it. None given, or one in the future: now.')),
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
    description: 'Which events are to be delivered again',
    examples: [
      { since: '2026-05-13T00:00:00Z', until: '2026-05-14T00:00:00Z', states: ['dead_lettered'] },
      { since: '2026-05-13T00:00:00Z', states: ['dead_lettered', 'delivered'], dry_run: true },
    ],
  },
)

/** What a dry run answers. */
export const ReplayCountSchema = named(
  'ReplayCount',
  Type.Object(
    { ...range, total: Count('Events that would be delivered again.') },
    { description: 'What a replay would take' },
  ),
)

export const ReplaySchema = named(
  'Replay',
  Type.Object(
    {
      id: told(Uuid, "The replay's id."),
      ...range,
      status: Type.Enum(['running', 'done', 'cancelled'], {
        description:
          'running: it queues, or waits for what it has queued; done: all of that is finished; cancelled: it queues nothing more.',
      }),
      total: Count(
        'Events to deliver again, as counted when it was made; exact once all of them are queued or skipped.',
      ),
      queued: Count('Of them, so far, those queued again.'),
      skipped: Count('Of them, so far, those that the hub no longer keeps.'),
      delivered: Count('Of the queued ones those delivered, as of a few seconds ago.'),
      dead_lettered: Count('Of the queued ones those dead-lettered.'),
      unfinished: Count('Of the queued ones those still on their way.'),
      created_at: told(Timestamp, 'When it was asked for.'),
      updated_at: told(Timestamp, 'When these numbers were last written.'),
      finished_at: Nullable(Timestamp, 'When it was done, or cancelled; null: it is running.'),
    },
    { description: 'A range of events that is delivered once more' },
  ),
)

export const ReplayQuery = Type.Object(pageQuery, { additionalProperties: false })

export type ReplayCountJson = Static<typeof ReplayCountSchema>
export type ReplayJson = Static<typeof ReplaySchema>
