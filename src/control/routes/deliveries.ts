// /v1/deliveries: one delivery, its attempts, and its retry by hand.
import type { Clock } from '../../base/clock.ts'
import { listAttempts, type Delivery } from '../../store/deliveries.ts'
import type { AsTenant, TenantDatabase } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { getDelivery, retryDelivery } from '../deliveries.ts'
import { answer } from '../schemas/answers.ts'
import { DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import { AttemptQuery, AttemptSchema, DeliveryDetail, DeliverySchema } from '../schemas/delivery.ts'
import { viewAttempt, viewDelivery } from '../views/delivery.ts'

const LIST = 'attempts'
/** A schedule has twelve steps at most: more attempts are crashes and retries by hand. */
const SHOWN_ATTEMPTS = 100
const tags = ['deliveries']

export interface DeliveryRouteDeps {
  asTenant: AsTenant
  clock: Clock
}

export function deliveryRoutes(api: Api, deps: DeliveryRouteDeps): void {
  addRead(api, deps)
  addListAttempts(api, deps)
  addRetry(api, deps)
}

function addRead(api: Api, { asTenant }: DeliveryRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/deliveries/:id',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'getDelivery',
      summary: 'Read one delivery with its attempts',
      description: 'Where it stands, and what each attempt met. Finished ones are kept for the retention time.',
      tags,
      params: idParams('delivery'),
      response: { 200: refer(DeliveryDetail) },
    },
    handler: async (request) => {
      return await asTenant(callerOf(request), async (db) => {
        const delivery = await getDelivery(db, request.params.id)
        const page = await attemptsOf(db, delivery, { after: null, limit: SHOWN_ATTEMPTS })
        return { ...viewDelivery(delivery), attempts: page.items, attempts_next_cursor: page.next_cursor }
      })
    },
  })
}

function addListAttempts(api: Api, { asTenant }: DeliveryRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/deliveries/:id/attempts',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'listAttempts',
      summary: "List a delivery's attempts, the first one first",
      description: 'All of them, retries by hand and those whose worker was lost included.',
      tags,
      params: idParams('delivery'),
      querystring: AttemptQuery,
      response: { 200: Page(AttemptSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const after = attemptOf(decodeCursor(LIST, cursor, (key) => attemptOf(key) !== null))
      return await asTenant(callerOf(request), async (db) => {
        const delivery = await getDelivery(db, request.params.id)
        return await attemptsOf(db, delivery, { after, limit })
      })
    },
  })
}

type Place = { number: number; id: string }

async function attemptsOf(
  db: TenantDatabase,
  delivery: Delivery,
  { after, limit }: { after: Place | null; limit: number },
) {
  const found = await listAttempts(db, delivery, { after, limit: limit + 1 })
  return pageOf(found, { list: LIST, limit, key: ({ number, id }) => `${number} ${id}`, view: viewAttempt })
}

/** An attempt's place among those of its delivery, as a cursor holds it. */
function attemptOf(key: string | null): Place | null {
  const [, number, id] = /^(\d{1,9}) (.+)$/.exec(key ?? '') ?? []
  return number !== undefined && id !== undefined && isUuid(id) ? { number: Number(number), id } : null
}

function addRetry(api: Api, { asTenant, clock }: DeliveryRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/deliveries/:id/retry',
    config: { access: 'subscriptions:write', limit: 'aggressive', problems: ['not_found', 'conflict'] },
    schema: {
      operationId: 'retryDelivery',
      summary: 'Try an unfinished delivery now, or deliver a finished one once more',
      description:
        'Of a finished delivery the answer is a new one, of kind `replay`. While its event is on its way again already, the answer is that one.',
      tags,
      params: idParams('delivery'),
      response: {
        200: answer(refer(DeliverySchema), {
          description: 'It is tried now, or its event is on its way again already',
        }),
        201: answer(refer(DeliverySchema), { description: 'A new delivery of its event', headers: ['location'] }),
      },
    },
    handler: async (request, reply) => {
      const { id } = request.params
      const { delivery, isNew } = await asTenant(callerOf(request), (db) => retryDelivery(db, id, { clock }))
      if (isNew) reply.code(201).header('location', `/v1/deliveries/${delivery.id}`)
      return viewDelivery(delivery)
    },
  })
}
