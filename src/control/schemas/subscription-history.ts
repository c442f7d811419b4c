// The audit trail of a subscription as the API shows it.
import { Type } from 'typebox'
import { ACTOR_KINDS } from '../../event/actor.ts'
import { CHANGE_KINDS } from '../../store/subscription-history.ts'
import { Nullable, Timestamp, named, pageQuery } from './common.ts'

const By = Type.Object(
  {
    kind: Type.Enum([...ACTOR_KINDS], { description: 'The kind of the credential; `hub`: the hub by itself.' }),
    id: Type.String({ description: "The API key's id, or the token's subject." }),
    name: Type.String(),
  },
  { description: 'Who.' },
)

const Changed = Type.Object({
  field: Type.String({ description: 'A JSON pointer into the subscription.' }),
  old: Type.Unknown({ description: 'Null: it was not there.' }),
  new: Type.Unknown({ description: 'Null: it is not there any more. A secret is `***`, whether old or new.' }),
})

export const SubscriptionChangeSchema = named(
  'SubscriptionChange',
  Type.Object(
    {
      version: Type.Integer({ description: 'The version that it made; its entity tag is that in quotes.' }),
      from_version: Nullable(Type.Integer()),
      what: Type.Enum([...CHANGE_KINDS]),
      at: Timestamp,
      by: By,
      changes: Type.Array(Changed),
    },
    {
      examples: [
        {
          version: 3,
          from_version: 2,
          what: 'updated',
          at: '2026-05-14T13:00:00.000Z',
          by: { kind: 'api_key', id: '01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10', name: 'shk_0123456789ab' },
          changes: [{ field: '/name', old: 'loans', new: 'loan approvals to core' }],
        },
      ],
    },
  ),
)

export const SubscriptionHistoryQuery = Type.Object(pageQuery, { additionalProperties: false })
