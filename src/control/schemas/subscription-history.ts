// The audit trail of a subscription as the API shows it.
import { Type } from 'typebox'
import { ACTOR_KINDS } from '../../event/actor.ts'
import { CHANGE_KINDS } from '../../store/subscription-history.ts'
import { Nullable, Text, Timestamp, named, pageQuery, told } from './common.ts'

const By = Type.Object(
  {
    kind: Type.Enum([...ACTOR_KINDS], { description: 'The kind of the credential; `hub`: the hub by itself.' }),
    id: Text("The API key's id, or the token's subject."),
    name: Text('For people: what the key begins with, or what the token says.'),
  },
  { description: 'Who.' },
)

const Changed = Type.Object({
  field: Text('A JSON pointer into the subscription.'),
  old: Type.Unknown({ description: 'Null: it was not there.' }),
  new: Type.Unknown({ description: 'Null: it is not there any more. A secret is `***`, whether old or new.' }),
})

export const SubscriptionChangeSchema = named(
  'SubscriptionChange',
  Type.Object(
    {
      version: Type.Integer({ description: 'The version that it made; its entity tag is that in quotes.' }),
      from_version: Nullable(Type.Integer(), 'The version before it; null: there was none.'),
      what: Type.Enum([...CHANGE_KINDS], { description: 'What was done.' }),
      at: told(Timestamp, 'When.'),
      by: By,
      changes: Type.Array(Changed, { description: 'Every field that it changed.' }),
    },
    { description: 'Who changed what in a subscription, and when' },
  ),
)

export const SubscriptionHistoryQuery = Type.Object(pageQuery, { additionalProperties: false })
