// /admin/breakers: the circuit breakers of all tenants' destinations.
import { HubError } from '../../base/errors.ts'
import { listBreakers } from '../../store/breakers.ts'
import type { BreakerRow, DestinationKey } from '../../store/destinations.ts'
import type { Pool } from '../../store/pool.ts'
import type { Api } from '../api.ts'
import { resetBreaker } from '../breakers.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, Page, refer } from '../schemas/common.ts'
import { BreakerParams, BreakerQuery, BreakerSchema, type BreakerJson } from '../schemas/operators.ts'
import { isoTimeOrNull } from '../views/bytes.ts'

const LIST = 'breakers'
const tags = ['operators']

export function breakerRoutes(api: Api, deps: { pool: Pool }): void {
  addList(api, deps)
  addReset(api, deps)
}

function addList(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'GET',
    url: '/admin/breakers',
    config: { access: 'admin' },
    schema: {
      operationId: 'listBreakers',
      summary: 'Circuit breakers by tenant and destination',
      description:
        'A breaker opens when a destination fails too often in a row: its deliveries then wait, and are no attempts.',
      tags,
      querystring: BreakerQuery,
      response: { 200: Page(BreakerSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, state } = request.query
      const key = decodeCursor(LIST, cursor, (text) => parseKey(text) !== null)
      const after = key === null ? null : parseKey(key)
      const found = await listBreakers(pool, { after, limit: limit + 1, state: state ?? null })
      return pageOf(found, { list: LIST, limit, key: keyOf, view: viewBreaker })
    },
  })
}

function addReset(api: Api, { pool }: { pool: Pool }): void {
  api.route({
    method: 'POST',
    url: '/admin/breakers/:key/reset',
    config: { access: 'admin', problems: ['not_found'] },
    schema: {
      operationId: 'resetBreaker',
      summary: 'Close a breaker; what waited for it is tried at once',
      description: 'For a destination that is known to be well again. One that is closed stays as it is.',
      tags,
      params: BreakerParams,
      response: { 200: refer(BreakerSchema) },
    },
    handler: async (request) => {
      const key = parseKey(request.params.key)
      if (!key) throw new HubError('not_found', 'There is no such breaker.')
      return viewBreaker(await resetBreaker(pool, key))
    },
  })
}

/** Tenant and destination as one opaque text that is safe in a path. */
function keyOf({ tenantId, destinationKey }: DestinationKey): string {
  return Buffer.from(JSON.stringify([tenantId, destinationKey])).toString('base64url')
}

function parseKey(key: string): DestinationKey | null {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(key, 'base64url').toString())
    if (!Array.isArray(parsed) || parsed.length !== 2) return null
    const [tenantId, destinationKey] = parsed as [unknown, unknown]
    if (!isText(tenantId) || !isText(destinationKey)) return null
    return { tenantId, destinationKey }
  } catch {
    return null
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0')
}

function viewBreaker(breaker: BreakerRow): BreakerJson {
  return {
    key: keyOf(breaker),
    tenant_id: breaker.tenantId,
    destination_key: breaker.destinationKey,
    state: breaker.state,
    failures: breaker.failures,
    opened: breaker.opened,
    blocked_until: isoTimeOrNull(breaker.blockedUntil === null ? null : new Date(breaker.blockedUntil)),
  }
}
