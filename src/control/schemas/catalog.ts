// The catalog of the API.
import { Type, type Static } from 'typebox'
import { Count, EventPattern, Flag, Nullable, SourceName, Text, Timestamp, named, pageQuery, told } from './common.ts'

export const CatalogEntrySchema = named(
  'CatalogEntry',
  Type.Object(
    {
      source: Text('The producing application: what a subscription calls origin.'),
      event_type: Text('What subscriptions ask for: <resource>.<event>.'),
      resource_type: Text('The part of `event_type` before the dot.'),
      events: Count('How many there were, those that retention has dropped included.'),
      first_seen_at: Nullable(Timestamp, 'When the first one arrived; null: the tenant has had none.'),
      last_seen_at: Nullable(
        Timestamp,
        'When the latest one that was counted arrived: counting is some seconds behind. Null: none.',
      ),
      schema_majors: Type.Array(Type.Integer(), { description: 'The major versions of its schema that were seen.' }),
      example: Type.Unknown({
        description:
          'The structure of the data of one event, without its values: "string", 0, false. Null: no JSON so far.',
      }),
      title: Nullable(Type.String(), "Its name for people, by its producer's manifest; null: none is told."),
      description: Nullable(Type.String(), 'What it means, by the manifest; null: nothing is told.'),
      data_schema: Nullable(Type.String(), "Where its data's schema is, by the manifest; null: nothing is told."),
    },
    { description: 'A type of events that the tenant has had, or that a producer describes' },
  ),
)

export const CatalogQuerySchema = Type.Object(
  {
    ...pageQuery,
    origin: Type.Optional(told(SourceName, 'Only of this producing application.')),
    event_type: Type.Optional(told(EventPattern, 'Only the types that this one, or this pattern, stands for.')),
    seen: Type.Optional(Flag('Only the types that the tenant has had; or only those that it has not.')),
  },
  { additionalProperties: false },
)

export type CatalogEntryJson = Static<typeof CatalogEntrySchema>
