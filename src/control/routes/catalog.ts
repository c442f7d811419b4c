// GET /v1/catalog: which types of events the tenant has had, and which there are by their producers' manifests. For people; nothing of the hub goes by it.
import { listCatalog, type CatalogEntry } from '../../store/catalog.ts'
import type { AsTenant } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { CatalogEntrySchema, CatalogQuerySchema, type CatalogEntryJson } from '../schemas/catalog.ts'
import { DEFAULT_LIMIT, Page } from '../schemas/common.ts'
import { isoTimeOrNull } from '../views/bytes.ts'

const LIST = 'catalog'
/** A source and an event key, neither of which has a slash. */
const KEY = /^[^/]{1,300}\/[^/]{1,300}$/

export function catalogRoutes(api: Api, { asTenant }: { asTenant: AsTenant }): void {
  api.route({
    method: 'GET',
    url: '/v1/catalog',
    config: { access: 'events:read' },
    schema: {
      operationId: 'listCatalog',
      summary:
        'The types of events that were seen, with counts and an example of each, and those that producers describe',
      description:
        'Counted beside the traffic, some seconds behind; for people who look for what they could subscribe to. By source and event type.',
      tags: ['events'],
      querystring: CatalogQuerySchema,
      response: { 200: Page(CatalogEntrySchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, origin = null, event_type: eventType = null, seen = null } = request.query
      const key = decodeCursor(LIST, cursor, (text) => KEY.test(text))
      const [source = '', eventKey = ''] = key?.split('/') ?? []
      const after = key === null ? null : { source, eventKey }
      const found = await asTenant(
        callerOf(request),
        async (db) => await listCatalog(db, { after, limit: limit + 1, origin, eventType, seen }),
      )
      return pageOf(found, { list: LIST, limit, key: (entry) => `${entry.source}/${entry.eventKey}`, view })
    },
  })
}

function view(entry: CatalogEntry): CatalogEntryJson {
  return {
    source: entry.source,
    event_type: entry.eventKey,
    resource_type: entry.resourceType,
    events: entry.events,
    first_seen_at: isoTimeOrNull(entry.firstSeenAt),
    last_seen_at: isoTimeOrNull(entry.lastSeenAt),
    schema_majors: entry.schemaMajors,
    example: entry.example,
    title: entry.title,
    description: entry.description,
    data_schema: entry.dataSchema,
  }
}
