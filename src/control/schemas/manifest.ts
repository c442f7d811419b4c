// How operators see the manifests that the catalog's descriptions come from.
import { Type, type Static } from 'typebox'
import { Count, Nullable, Text, Timestamp, named, told } from './common.ts'

export const ManifestSchema = named(
  'Manifest',
  Type.Object(
    {
      url: Text('Where it is fetched from.'),
      fetched_at: told(Timestamp, 'When it was asked for the last time.'),
      succeeded_at: Nullable(Timestamp, 'When what is shown of it was fetched; null: never.'),
      error: Nullable(Type.String(), 'Why it could not be had the last time; what was had before stays. Null: it was.'),
      event_types: Count('How many types of events it describes.'),
      left_out: Type.Array(
        Type.Object({
          path: Text('A JSON pointer into the manifest.'),
          message: Text('Why this entry was not taken.'),
        }),
        { description: 'Its entries that were not taken; the first hundred.' },
      ),
    },
    { description: "A producer's manifest, which describes types of events" },
  ),
)

export type ManifestJson = Static<typeof ManifestSchema>
