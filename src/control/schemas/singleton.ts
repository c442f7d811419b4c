// How operators see a chore that one replica does for all.
import { Type, type Static } from 'typebox'
import { Nullable, Timestamp, named } from './common.ts'

export const SingletonSchema = named(
  'Singleton',
  Type.Object({
    name: Type.String(),
    every_seconds: Type.Number(),
    holder: Nullable(
      Type.String({
        description:
          "The connection (as in pg_stat_activity: part, host and process) that holds the lock now. Null: nobody's, or it changes hands.",
      }),
    ),
    holder_connected_at: Nullable(Timestamp),
    last: Type.Object(
      {
        holder: Type.String(),
        started_at: Timestamp,
        finished_at: Timestamp,
        done: Nullable(
          Type.Record(Type.String(), Type.Unknown(), { description: 'What it did; null: nothing had to be done.' }),
        ),
        error: Nullable(Type.String({ description: 'Why it failed; it is tried again within a minute.' })),
      },
      { description: 'The last time that it was done, by whoever held the lock then.' },
    ),
  }),
)

export type SingletonJson = Static<typeof SingletonSchema>
