// Replays of a range: begin one (or only count), look how far it is, cancel it.
import { PLACES } from '../../upkeep/replays.ts'
import type { Clock } from '../../base/clock.ts'
import { listReplays } from '../../store/replays.ts'
import type { AsTenant } from '../../store/tenant.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import { decodeCursor, pageOf } from '../cursor.ts'
import { beginReplay, countRange, endReplay, getReplay, MAX_RUNNING } from '../replays.ts'
import { answer } from '../schemas/answers.ts'
import { DEFAULT_LIMIT, idParams, Page, isUuid, refer } from '../schemas/common.ts'
import { CreateReplay, ReplayCountSchema, ReplayQuery, ReplaySchema } from '../schemas/replay.ts'
import { getSubscription } from '../subscriptions.ts'
import { viewReplay, viewReplayCount } from '../views/replay.ts'
import { moment } from './time-bounds.ts'

const LIST = 'replays'
const tags = ['deliveries']

const DESCRIPTION = `Each event that arrived in the range (the time of its first delivery to this subscription) is delivered once more, in
the order of arrival, if its newest finished delivery is in one of the states. What is unfinished, or arrives later, is no part of it.

It runs in the background and below live traffic: of the subscription's queue at most ${PLACES} places are a replay's at a time, filled up
about once a second. In a \`strict\` queue a replayed event that fails blocks those behind it as any other does. While the
subscription is disabled or unverified the replay waits; with its deletion it is cancelled. Events that the hub no longer keeps are
skipped. At most ${MAX_RUNNING} replays of a subscription run at a time (\`conflict\`), one after the other.

With \`dry_run\` the answer is 200 with the count, and nothing is queued.`

export interface ReplayRouteDeps {
  asTenant: AsTenant
  clock: Clock
}

export function replayRoutes(api: Api, deps: ReplayRouteDeps): void {
  addBegin(api, deps)
  addList(api, deps)
  addRead(api, deps)
  addCancel(api, deps)
}

function addBegin(api: Api, deps: ReplayRouteDeps): void {
  api.route({
    method: 'POST',
    url: '/v1/subscriptions/:id/replay',
    config: { access: 'subscriptions:write', limit: 'aggressive', problems: ['not_found', 'conflict'] },
    schema: {
      operationId: 'beginReplay',
      summary: 'Deliver again what was delivered or dead-lettered in a range of time',
      description: DESCRIPTION,
      tags,
      params: idParams('subscription'),
      body: CreateReplay,
      response: {
        200: answer(refer(ReplayCountSchema), { description: 'What it would take: a dry run' }),
        202: answer(refer(ReplaySchema), { description: 'It has begun', headers: ['location'] }),
      },
    },
    handler: async (request, reply) => {
      const { asTenant } = deps
      const { since, until, states = ['dead_lettered'], dry_run: isDryRun = false } = request.body
      const wish = {
        subscriptionId: request.params.id,
        since: moment(since),
        until: until === undefined ? null : moment(until),
        states,
      }
      if (isDryRun) {
        const { range, total } = await asTenant(callerOf(request), (db) => countRange(db, wish, deps))
        return viewReplayCount(range, total)
      }
      const replay = await asTenant(callerOf(request), (db) => beginReplay(db, wish, deps))
      reply.code(202).header('location', `/v1/replays/${replay.id}`)
      return viewReplay(replay)
    },
  })
}

function addList(api: Api, { asTenant }: ReplayRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/subscriptions/:id/replays',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'listReplays',
      summary: "List a subscription's replays, the newest first",
      description: 'Running ones and ended ones.',
      tags,
      params: idParams('subscription'),
      querystring: ReplayQuery,
      response: { 200: Page(ReplaySchema) },
    },
    handler: async (request) => {
      const { limit = DEFAULT_LIMIT, cursor } = request.query
      const before = decodeCursor(LIST, cursor, isUuid)
      const found = await asTenant(callerOf(request), async (db) => {
        const { id: subscriptionId } = await getSubscription(db, request.params.id)
        return await listReplays(db, { subscriptionId, before, limit: limit + 1 })
      })
      return pageOf(found, { list: LIST, limit, key: ({ id }) => id, view: viewReplay })
    },
  })
}

function addRead(api: Api, { asTenant }: ReplayRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/replays/:id',
    config: { access: 'subscriptions:read', problems: ['not_found'] },
    schema: {
      operationId: 'getReplay',
      summary: 'Read how far a replay is',
      description: 'Its numbers are some seconds behind; it is over when `finished_at` is there.',
      tags,
      params: idParams('replay'),
      response: { 200: refer(ReplaySchema) },
    },
    handler: async (request) => {
      const { id } = request.params
      return viewReplay(await asTenant(callerOf(request), (db) => getReplay(db, id)))
    },
  })
}

function addCancel(api: Api, deps: ReplayRouteDeps): void {
  api.route({
    method: 'DELETE',
    url: '/v1/replays/:id',
    config: { access: 'subscriptions:write', problems: ['not_found'] },
    schema: {
      operationId: 'cancelReplay',
      summary: 'Cancel a replay: it queues nothing more',
      description: 'What it has queued goes on, and is still counted. One that has ended stays as it is.',
      tags,
      params: idParams('replay'),
      response: { 200: refer(ReplaySchema) },
    },
    handler: async (request) => {
      const { id } = request.params
      return viewReplay(await deps.asTenant(callerOf(request), (db) => endReplay(db, id, deps)))
    },
  })
}
