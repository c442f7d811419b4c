// /v1/deliveries: one delivery with its attempts, and its retry by hand.
import type { Clock } from '../../base/clock.ts'
import { listAttempts } from '../../store/deliveries.ts'
import type { AsTenant } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { getDelivery, retryDelivery } from '../deliveries.ts'
import { IdParams, refer } from '../schemas/common.ts'
import { DeliveryDetail, DeliverySchema } from '../schemas/delivery.ts'
import { viewAttempt, viewDelivery } from '../views/delivery.ts'

const tags = ['deliveries']

export interface DeliveryRouteDeps {
  asTenant: AsTenant
  clock: Clock
}

export function deliveryRoutes(api: Api, deps: DeliveryRouteDeps): void {
  addRead(api, deps)
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
      tags,
      params: IdParams,
      response: { 200: refer(DeliveryDetail) },
    },
    handler: async (request) => {
      return await asTenant(callerOf(request), async (db) => {
        const delivery = await getDelivery(db, request.params.id)
        const attempts = await listAttempts(db, delivery)
        return { ...viewDelivery(delivery), attempts: attempts.map(viewAttempt) }
      })
    },
  })
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
      params: IdParams,
      response: { 200: refer(DeliverySchema), 201: refer(DeliverySchema) },
    },
    handler: async (request, reply) => {
      const { id } = request.params
      const { delivery, isNew } = await asTenant(callerOf(request), (db) => retryDelivery(db, id, { clock }))
      if (isNew) reply.code(201).header('location', `/v1/deliveries/${delivery.id}`)
      return viewDelivery(delivery)
    },
  })
}
