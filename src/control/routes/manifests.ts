// /admin/manifests: where the catalog's descriptions come from, and how fetching them goes.
import { listManifests, type ManifestState } from '../../store/manifests.ts'
import type { Pool } from '../../store/pool.ts'
import type { Api } from '../api.ts'
import { Everything } from '../schemas/common.ts'
import { ManifestSchema, type ManifestJson } from '../schemas/manifest.ts'
import { isoTimeOrNull } from '../views/bytes.ts'

export function manifestRoutes(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'GET',
    url: '/admin/manifests',
    config: { access: 'admin' },
    schema: {
      operationId: 'getManifests',
      summary: "The producers' manifests that the catalog's descriptions come from, and how fetching them went",
      description: 'Those that were fetched at least once, in the order of the configuration.',
      tags: ['operators'],
      response: { 200: Everything(ManifestSchema) },
    },
    handler: async () => ({ items: (await listManifests(pool)).map(view) }),
  })
}

function view(manifest: ManifestState): ManifestJson {
  return {
    url: manifest.url,
    fetched_at: manifest.fetchedAt.toISOString(),
    succeeded_at: isoTimeOrNull(manifest.succeededAt),
    error: manifest.problem,
    event_types: manifest.eventTypes,
    left_out: manifest.leftOut,
  }
}
