// GET /v1/events: events in arrival order, as far as the caller has not had them yet.
import { Type } from 'typebox'
import { duration } from '../../base/parser.ts'
import type { Api } from '../api.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { PullMetrics } from '../metrics.ts'
import { cursorOf, pull, type PullDeps } from '../pull.ts'
import { DEFAULT_LIMIT } from '../schemas/common.ts'
import { PulledPage, PullQuerySchema } from '../schemas/event.ts'
import { invalid } from '../validation.ts'
import { writePulledEvent } from '../views/pulled-event.ts'

const tags = ['events']
const anyDuration = duration('0s', '1h')

export interface PullRouteDeps extends PullDeps {
  pullMetrics: PullMetrics
  /** Aborts when the hub is about to go. */
  stopping: AbortSignal
}

export function pullRoutes(api: Api, deps: PullRouteDeps): void {
  api.route({
    method: 'GET',
    url: '/v1/events',
    config: { access: 'events:read', limit: 'pull', problems: ['conflict'] },
    schema: {
      operationId: 'pullEvents',
      summary: 'The next events in arrival order',
      description: DESCRIPTION,
      tags,
      querystring: PullQuerySchema,
      response: { 200: Type.Unsafe<string>(PulledPage) },
    },
    handler: async (request, reply) => {
      const { cursor, from, wait = '0s', limit = DEFAULT_LIMIT, origin = null, event_type } = request.query
      if (cursor !== undefined && from !== undefined)
        throw invalid([{ path: '?from', message: 'does not go with ?cursor, which says where to go on' }])
      const gone = new AbortController()
      reply.raw.once('close', () => gone.abort())
      const page = await pull(
        {
          tenant: callerOf(request),
          cursor,
          from: from ?? 'earliest',
          query: { limit, origin, eventTypes: event_type === undefined ? null : [event_type].flat() },
          waitMs: anyDuration.parse(wait) ?? 0,
          signal: AbortSignal.any([gone.signal, deps.stopping]),
        },
        deps,
      )
      deps.pullMetrics.events.inc(page.events.length)
      reply.type('application/json; charset=utf-8')
      const end = JSON.stringify({ next_cursor: cursorOf(page.next), has_more: page.more }).slice(1)
      return reply.send(`{"items":[${page.events.map(writePulledEvent).join()}],${end}`)
    },
  })
}

const DESCRIPTION = `Every call answers with a \`next_cursor\`, also at the end: keep it once what came with it is dealt with, and go on from there.
The same cursor always gives the same events, followed by what has arrived since. No event is ever passed over. A page may hold fewer events than
\`limit\`, or none, although \`has_more\` says that there is more to look at: then ask again at once. At the end, \`wait\` saves asking.`
