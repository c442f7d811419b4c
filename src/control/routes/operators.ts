// /admin: what operators look at across tenants, and the breaker that they reset.
import type { TopicReport } from '../../stream/standing.ts'
import type { PartitionLag } from '../../stream/stream.ts'
import { listDeadLetters } from '../../store/deliveries.ts'
import { listTenants, type TenantBacklog } from '../../store/tenants.ts'
import type { Pool } from '../../store/pool.ts'
import type { Api } from '../api.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, Everything, Page, isUuid } from '../schemas/common.ts'
import { DeadLetterQuery, DeadLetterSchema } from '../schemas/delivery.ts'
import {
  PartitionLagSchema,
  TenantQuery,
  TenantSchema,
  TopicSchema,
  type PartitionLagJson,
  type TenantJson,
  type TopicJson,
} from '../schemas/operators.ts'
import { isoTimeOrNull } from '../views/bytes.ts'
import { viewDelivery } from '../views/delivery.ts'
import { timeBounds } from './time-bounds.ts'

const COUNT_UP_TO = 10_000
const DEAD_LETTERS = 'dead-letters'
const TENANTS = 'tenants'
const tags = ['operators']

interface GroupLag extends PartitionLag {
  group: string
}

/** What the streams' consumers say of themselves; nothing where this process runs none. */
export interface StreamView {
  lag(): GroupLag[]
  topics(): TopicReport[]
}

export interface OperatorDeps {
  pool: Pool
  stream: StreamView
}

export function operatorRoutes(api: Api, deps: OperatorDeps): void {
  addDeadLetters(api, deps)
  addTenants(api, deps)
  addLag(api, deps)
  addTopics(api, deps)
}

function addDeadLetters(api: Api, { pool }: OperatorDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/dead-letters',
    config: { access: 'admin' },
    schema: {
      operationId: 'listDeadLetters',
      summary: "All tenants' dead-lettered deliveries, the newest delivery first",
      description:
        'With `tenant_id`, `subscription_id` and `reason` fewer of them. `POST /v1/deliveries/{id}/retry`, called for the tenant, tries one again.',
      tags,
      querystring: DeadLetterQuery,
      response: { 200: Page(DeadLetterSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor, tenant_id, subscription_id, reason } = request.query
      const found = await listDeadLetters(pool, {
        before: decodeCursor(DEAD_LETTERS, cursor, isUuid),
        limit: limit + 1,
        tenantId: tenant_id ?? null,
        subscriptionId: subscription_id ?? null,
        reason: reason ?? null,
        ...timeBounds(request.query),
      })
      const view = (delivery: (typeof found)[number]) => ({ tenant_id: delivery.tenantId, ...viewDelivery(delivery) })
      return pageOf(found, { list: DEAD_LETTERS, limit, key: ({ id }) => id, view })
    },
  })
}

function addTenants(api: Api, { pool }: OperatorDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/tenants',
    config: { access: 'admin' },
    schema: {
      operationId: 'listTenants',
      summary: 'Tenants by name, with what waits for them',
      description: 'Every tenant that has a subscription, with its unfinished deliveries and open breakers.',
      tags,
      querystring: TenantQuery,
      response: { 200: Page(TenantSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const after = decodeCursor(TENANTS, cursor, (key) => !key.includes('\0'))
      const found = await listTenants(pool, { after, limit: limit + 1, countUpTo: COUNT_UP_TO })
      return pageOf(found, { list: TENANTS, limit, key: ({ tenantId }) => tenantId, view: viewTenant })
    },
  })
}

function addLag(api: Api, { stream }: OperatorDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/lag',
    config: { access: 'admin' },
    schema: {
      operationId: 'getLag',
      summary: 'The partitions that this process reads, by consumer group, and how far behind it is',
      description:
        'As this process sees them: other replicas read other partitions. Nothing where it runs no consumer.',
      tags,
      response: { 200: Everything(PartitionLagSchema) },
    },
    handler: async () => ({ items: stream.lag().map(viewLag) }),
  })
}

function addTopics(api: Api, { stream }: OperatorDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/topics',
    config: { access: 'admin' },
    schema: {
      operationId: 'getTopics',
      summary: "The broker's topics, and how each stands",
      description: 'As this process sees them. The limits of sizes are as old as its last look.',
      tags,
      response: { 200: Everything(TopicSchema) },
    },
    handler: async () => ({ items: stream.topics().map(viewTopic) }),
  })
}

function viewTenant(t: TenantBacklog): TenantJson {
  return {
    tenant_id: t.tenantId,
    subscriptions: t.subscriptions,
    backlog: t.backlog,
    backlog_is_exact: t.backlogIsExact,
    oldest_queued_at: isoTimeOrNull(t.oldestQueuedAt),
    open_breakers: t.openBreakers,
  }
}

function viewTopic(t: TopicReport): TopicJson {
  return {
    topic: t.topic,
    kind: t.kind,
    state: t.state,
    problem: t.problem,
    partitions: t.partitions,
    max_message_bytes: t.maxMessageBytes,
    dead_letters: t.deadLetters,
  }
}

function viewLag(l: GroupLag): PartitionLagJson {
  return {
    group: l.group,
    topic: l.topic,
    partition: l.partition,
    position: numberOrNull(l.position),
    committed: numberOrNull(l.committed),
    end: numberOrNull(l.end),
    lag: numberOrNull(l.lag),
    failures: l.failures,
    problem: l.problem,
    last_progress_at: new Date(l.lastProgressAt).toISOString(),
  }
}

/** Offsets stay far below 2⁵³. */
function numberOrNull(offset: bigint | null): number | null {
  return offset === null ? null : Number(offset)
}
