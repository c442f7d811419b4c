// /v1/subscriptions/:id/health: how a subscription fares.
import type { Clock } from '../../base/clock.ts'
import type { AsTenant } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { idParams, refer } from '../schemas/common.ts'
import { SubscriptionHealthSchema } from '../schemas/subscription-health.ts'
import { readHealth, type HealthSettings } from '../subscription-health.ts'
import { viewHealth } from '../views/subscription-health.ts'

export interface SubscriptionHealthDeps {
  asTenant: AsTenant
  clock: Clock
  health: HealthSettings
}

export function subscriptionHealthRoutes(api: Api, deps: SubscriptionHealthDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions/:id/health',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'getSubscriptionHealth',
      summary: 'How a subscription fares: success, latency, streak, breaker and backlog',
      description: `Over the health window (720 hours, unless the hub is set to another), from counts that are kept by the hour: the window begins with a
full hour. Tests sent by hand are not counted.`,
      tags: ['subscriptions'],
      params: idParams('subscription'),
      response: { 200: refer(SubscriptionHealthSchema) },
    },
    handler: async (request) => {
      const health = await deps.asTenant(callerOf(request), (db) => readHealth(db, request.params.id, deps))
      return viewHealth(health, deps.health)
    },
  })
}
