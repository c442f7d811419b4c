// /admin/quarantine: records that are no events, whole, for forensics.
import { HubError } from '../../base/errors.ts'
import type { Pool } from '../../store/pool.ts'
import {
  countQuarantine,
  findQuarantined,
  listQuarantine,
  QUARANTINE_GROUPS,
  type Quarantined,
} from '../../store/quarantine.ts'
import type { Api } from '../api.ts'
import { decodeCursor, encodeCursor } from '../cursor.ts'
import { Download, sendDownload } from '../download.ts'
import { DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import { QuarantineCountQuery, QuarantineCounts, QuarantineQuery, QuarantinedSchema } from '../schemas/operators.ts'
import { viewCounts } from '../views/counts.ts'
import { viewQuarantined } from '../views/quarantine.ts'
import { timeBounds } from './time-bounds.ts'

const LIST = 'quarantine'
/** Records are shown whole, and may have 1 MiB each. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024
const tags = ['operators']

export function quarantineRoutes(api: Api, deps: { pool: Pool }): void {
  addList(api, deps)
  addCounts(api, deps)
  addRead(api, deps)
  addBody(api, deps)
}

function addList(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'GET',
    url: '/admin/quarantine',
    config: { access: 'admin' },
    schema: {
      operationId: 'listQuarantine',
      summary: "Quarantined records, the newest first by the records' own time",
      description: 'A page of large records ends early: it holds about 8 MiB at most.',
      tags,
      querystring: QuarantineQuery,
      response: { 200: Page(QuarantinedSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, reason, source } = request.query
      const { items, more } = await listQuarantine(pool, {
        before: decodeCursor(LIST, cursor, isUuid),
        limit,
        maxBytes: MAX_PAGE_BYTES,
        reason: reason ?? null,
        source: source ?? null,
        ...timeBounds(request.query),
      })
      const last = items.at(-1)
      return { items: items.map(viewQuarantined), next_cursor: more && last ? encodeCursor(LIST, last.id) : null }
    },
  })
}

function addCounts(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'GET',
    url: '/admin/quarantine/counts',
    config: { access: 'admin' },
    schema: {
      operationId: 'countQuarantine',
      summary: 'How many records were quarantined for what, of which source, and when',
      description: 'Over all time, or for each hour or day.',
      tags,
      querystring: QuarantineCountQuery,
      response: { 200: refer(QuarantineCounts) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, by: wanted = 'reason,source', bucket = null, reason, source } = request.query
      const by = QUARANTINE_GROUPS.filter((group) => wanted.split(',').includes(group))
      const found = await countQuarantine(pool, {
        reason: reason ?? null,
        source: source ?? null,
        ...timeBounds(request.query),
        by,
        bucket,
        limit: limit + 1,
      })
      return viewCounts(found, { by, limit })
    },
  })
}

function addRead(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'GET',
    url: '/admin/quarantine/:id',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'getQuarantined',
      summary: 'One quarantined record',
      description: 'With its key, every header as it came, and the value as base64.',
      tags,
      params: idParams('quarantined record'),
      response: { 200: refer(QuarantinedSchema) },
    },
    handler: async (request) => viewQuarantined(await findOne(pool, request.params.id)),
  })
}

function addBody(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'GET',
    url: '/admin/quarantine/:id/body',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'downloadQuarantined',
      summary: 'The value of one quarantined record, as a file',
      description: 'Byte for byte. One without a value is `not_found`.',
      tags,
      params: idParams('quarantined record'),
      response: { 200: Download },
    },
    handler: async (request, reply) => {
      const { id, record } = await findOne(pool, request.params.id)
      return await sendDownload(reply, `quarantined-${id}.bin`, record.value)
    },
  })
}

async function findOne(pool: Pool, id: string): Promise<Quarantined> {
  const found = await findQuarantined(pool, id)
  if (!found) throw new HubError('not_found', 'There is no such quarantined record.')
  return found
}
