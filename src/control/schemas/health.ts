// What the hub says of itself.
import { Type } from 'typebox'
import { Flag, Nullable, Text, named } from './common.ts'

export const Health = named(
  'Health',
  Type.Object(
    { status: Type.Literal('ok', { description: 'The process is alive; nothing else is asked.' }) },
    { description: 'A process that is alive' },
  ),
)

export const Readiness = named(
  'Readiness',
  Type.Object(
    {
      status: Type.Literal('ready', { description: 'No check has a problem, but for advisory ones.' }),
      checks: Type.Array(
        Type.Object({
          name: Text('What is looked at, such as database.'),
          problem: Nullable(Type.String(), 'What is wrong, in a sentence; null: nothing.'),
          advisory: Flag('Its problem is shown here, and never makes a 503.'),
        }),
        { description: 'Each thing that was looked at.' },
      ),
    },
    { description: 'A process that can do its work' },
  ),
)
