// What the hub says of itself.
import { Type } from 'typebox'
import { Nullable, named } from './common.ts'

export const Health = named('Health', Type.Object({ status: Type.Literal('ok') }))

export const Readiness = named(
  'Readiness',
  Type.Object({
    status: Type.Literal('ready'),
    checks: Type.Array(
      Type.Object({
        name: Type.String(),
        problem: Nullable(Type.String()),
        advisory: Type.Boolean({ description: 'Its problem is shown here, and never makes a 503.' }),
      }),
    ),
  }),
)
