// /admin/dlq: what producing applications gave up on, as it lies in their own `.dlq` topics. To be looked at: nothing here delivers.
import { HubError } from '../../base/errors.ts'
import type { Pool } from '../../store/pool.ts'
import {
  countProducerDeadLetters,
  DEAD_LETTER_GROUPS,
  findProducerDeadLetter,
  listProducerDeadLetters,
  type DeadLetterFilter,
  type KeptDeadLetter,
} from '../../store/producer-dead-letters.ts'
import type { Api } from '../api.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { Download, sendDownload } from '../download.ts'
import { DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import {
  ProducerDeadLetterCountQuery,
  ProducerDeadLetterCounts,
  ProducerDeadLetterDetail,
  ProducerDeadLetterQuery,
  ProducerDeadLetterSchema,
} from '../schemas/producer-dead-letter.ts'
import { viewCounts } from '../views/counts.ts'
import { viewProducerDeadLetter, viewProducerDeadLetterDetail } from '../views/producer-dead-letter.ts'
import { timeBounds } from './time-bounds.ts'

const LIST = 'dlq'
const tags = ['operators']

interface Deps {
  pool: Pool
}

export function producerDeadLetterRoutes(api: Api, deps: Deps): void {
  addList(api, deps)
  addCounts(api, deps)
  addRead(api, deps)
  addBody(api, deps)
}

function addList(api: Api, { pool }: Deps): void {
  api.route({
    method: 'GET',
    url: '/admin/dlq',
    config: { access: 'admin' },
    schema: {
      operationId: 'listProducerDeadLetters',
      summary: "Producers' dead letters without their bodies, the one found last first",
      description: 'What producing applications gave up on, as it lies in their `.dlq` topics. Nothing here delivers.',
      tags,
      querystring: ProducerDeadLetterQuery,
      response: { 200: Page(ProducerDeadLetterSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const before = decodeCursor(LIST, cursor, isUuid)
      const found = await listProducerDeadLetters(pool, { ...filterOf(request.query), before, limit: limit + 1 })
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: viewProducerDeadLetter })
    },
  })
}

function addCounts(api: Api, { pool }: Deps): void {
  api.route({
    method: 'GET',
    url: '/admin/dlq/counts',
    config: { access: 'admin' },
    schema: {
      operationId: 'countProducerDeadLetters',
      summary: "How many of producers' dead letters have what in common",
      description: 'Over all time, or for each hour or day.',
      tags,
      querystring: ProducerDeadLetterCountQuery,
      response: { 200: refer(ProducerDeadLetterCounts) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, by: wanted = 'source', bucket = null } = request.query
      const by = DEAD_LETTER_GROUPS.filter((group) => wanted.split(',').includes(group))
      const filter = filterOf(request.query)
      const found = await countProducerDeadLetters(pool, { ...filter, by, bucket, limit: limit + 1 })
      return viewCounts(found, { by, limit })
    },
  })
}

function addRead(api: Api, { pool }: Deps): void {
  api.route({
    method: 'GET',
    url: '/admin/dlq/:id',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'getProducerDeadLetter',
      summary: "One of producers' dead letters, whole",
      description: 'With its key, every header as it came, and the body as text and as base64.',
      tags,
      params: idParams('dead letter'),
      response: { 200: refer(ProducerDeadLetterDetail) },
    },
    handler: async (request) => viewProducerDeadLetterDetail(await findOne(pool, request.params.id)),
  })
}

function addBody(api: Api, { pool }: Deps): void {
  api.route({
    method: 'GET',
    url: '/admin/dlq/:id/body',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'downloadProducerDeadLetter',
      summary: "The body of one of producers' dead letters, as a file",
      description: 'Byte for byte. One without a body is `not_found`.',
      tags,
      params: idParams('dead letter'),
      response: { 200: Download },
    },
    handler: async (request, reply) => {
      const { id, record } = await findOne(pool, request.params.id)
      return await sendDownload(reply, `dead-letter-${id}.bin`, record.value)
    },
  })
}

async function findOne(pool: Pool, id: string): Promise<KeptDeadLetter> {
  const found = await findProducerDeadLetter(pool, id)
  if (!found) throw new HubError('not_found', 'There is no such dead letter; it may have been dropped after its time.')
  return found
}

function filterOf(query: {
  source?: string
  tenant_id?: string
  cause_kind?: string
  error_class?: string
  event_type?: string
  since?: string
  until?: string
}): DeadLetterFilter {
  return {
    source: query.source ?? null,
    tenantId: query.tenant_id ?? null,
    causeKind: query.cause_kind ?? null,
    errorClass: query.error_class ?? null,
    eventType: query.event_type ?? null,
    ...timeBounds(query),
  }
}
