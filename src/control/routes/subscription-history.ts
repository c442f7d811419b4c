// /v1/subscriptions/:id/history: who changed what, and when.
import { HubError } from '../../base/errors.ts'
import { hasExisted, listChanges, type SubscriptionChange } from '../../store/subscription-history.ts'
import type { AsTenant } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { DEFAULT_LIMIT, idParams, Page } from '../schemas/common.ts'
import { SubscriptionChangeSchema, SubscriptionHistoryQuery } from '../schemas/subscription-history.ts'
import { isoTime } from '../views/bytes.ts'

const LIST = 'history'

export function subscriptionHistoryRoutes(api: Api, { asTenant }: { asTenant: AsTenant }): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions/:id/history',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'listSubscriptionHistory',
      summary: 'Who changed a subscription, when and how, the newest change first',
      description: 'Every version has one entry. It stays readable by its id when the subscription is deleted.',
      tags: ['subscriptions'],
      params: idParams('subscription'),
      querystring: SubscriptionHistoryQuery,
      response: { 200: Page(SubscriptionChangeSchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const { id: subscriptionId } = request.params
      const before = decodeCursor(LIST, cursor, (key) => VERSION.test(key))
      const list = { subscriptionId, before: before === null ? null : Number(before), limit: limit + 1 }
      const found = await asTenant(callerOf(request), async (db) => {
        if (!(await hasExisted(db, subscriptionId))) throw new HubError('not_found', 'There is no such subscription.')
        return await listChanges(db, list)
      })
      return pageOf(found, { list: LIST, limit, key: ({ version }) => String(version), view: viewChange })
    },
  })
}

const VERSION = /^[1-9]\d{0,8}$/

function viewChange({ version, what, at, by: { kind, id, name }, changes }: SubscriptionChange) {
  const from_version = version === 1 ? null : version - 1
  return { version, from_version, what, at: isoTime(at), by: { kind, id, name }, changes: [...changes] }
}
