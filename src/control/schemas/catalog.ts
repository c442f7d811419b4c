// The catalog of the API.
import { Type, type Static } from 'typebox'
import { EventPattern, SourceName, Timestamp, named, pageQuery } from './common.ts'

export const CatalogEntrySchema = named(
  'CatalogEntry',
  Type.Object({
    source: Type.String({ description: 'The producing application: what a subscription calls origin.' }),
    event_type: Type.String({ description: 'What subscriptions ask for: <resource>.<event>.' }),
    resource_type: Type.String(),
    events: Type.Integer({ description: 'How many there were, those that retention has dropped included.' }),
    first_seen_at: Timestamp,
    last_seen_at: Timestamp,
    schema_majors: Type.Array(Type.Integer()),
    example: Type.Unknown({
      description:
        'The structure of the data of one event, without its values: "string", 0, false. Null: no JSON so far.',
    }),
  }),
)

export const CatalogQuerySchema = Type.Object(
  { ...pageQuery, origin: Type.Optional(SourceName), event_type: Type.Optional(EventPattern) },
  { additionalProperties: false },
)

export type CatalogEntryJson = Static<typeof CatalogEntrySchema>
