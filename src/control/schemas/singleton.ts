// How operators see a chore that one replica does for all.
import { Type, type Static } from 'typebox'
import { Nullable, Text, Timestamp, named, told } from './common.ts'

export const SingletonSchema = named(
  'Singleton',
  Type.Object(
    {
      name: Text('The chore.'),
      every_seconds: Type.Number({ description: 'How often it is done, in seconds.' }),
      holder: Nullable(
        Type.String(),
        "The connection (as in pg_stat_activity: part, host and process) that holds the lock now. Null: nobody's, or it changes hands.",
      ),
      holder_connected_at: Nullable(Timestamp, 'Since when that connection is there; null: nobody holds the lock.'),
      last: Type.Object(
        {
          holder: Text('Who did it, named as above.'),
          started_at: told(Timestamp, 'When it began.'),
          finished_at: told(Timestamp, 'When it ended, well or not.'),
          done: Nullable(Type.Record(Type.String(), Type.Unknown()), 'What it did; null: nothing had to be done.'),
          error: Nullable(Type.String(), 'Why it failed; it is tried again within a minute. Null: it did not.'),
        },
        { description: 'The last time that it was done, by whoever held the lock then.' },
      ),
    },
    { description: 'A chore that one replica does for all' },
  ),
)

export type SingletonJson = Static<typeof SingletonSchema>
