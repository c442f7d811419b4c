// For those who watch the hub: is it alive, is it ready, what does it count. None of it names a tenant; none asks for a credential.
import { Type } from 'typebox'
import { HubError } from '../../base/errors.ts'
import type { Log } from '../../base/log.ts'
import type { Registry } from '../../base/metrics.ts'
import type { Api } from '../api.ts'
import { problemOf, sendProblem } from '../problems.ts'
import { refer } from '../schemas/common.ts'
import { Health, Readiness } from '../schemas/health.ts'

export interface ReadinessCheck {
  /** `database`, `stream`, … */
  name: string
  /** Null when all is well, else one readable sentence without secrets: everybody may read it. A rejection is a problem, untold. */
  check: () => Promise<string | null> | string | null
  /** Shown, and never a reason for not being ready: what it is about is observed only. */
  advisory?: boolean
}

export interface HealthDeps {
  log: Log
  checks: readonly ReadinessCheck[]
  /** Null: no metrics are served. */
  metrics: Registry | null
}

const tags = ['health']
const CHECK_FAILED = 'the check itself failed'

export function healthRoutes(api: Api, deps: HealthDeps): void {
  api.route({
    method: 'GET',
    url: '/healthz',
    config: { access: 'public' },
    schema: {
      operationId: 'health',
      summary: 'Is the process alive?',
      description: 'A 200 while the process can answer at all; it asks neither database nor broker.',
      tags,
      response: { 200: refer(Health) },
    },
    handler: async () => ({ status: 'ok' as const }),
  })
  addReadiness(api, deps)
  if (deps.metrics) addMetrics(api, deps.metrics)
}

function addReadiness(api: Api, { checks, log }: HealthDeps): void {
  api.route({
    method: 'GET',
    url: '/readyz',
    config: { access: 'public' },
    schema: {
      operationId: 'ready',
      summary: 'Can it do its work? A 503 names what is wrong',
      description:
        'Each thing that the hub needs, and whether it is there. What is advisory is shown, and never makes a 503.',
      tags,
      response: { 200: refer(Readiness) },
    },
    handler: async (request, reply) => {
      const results = await Promise.all(checks.map((check) => run(check, log)))
      const failing = results.filter(({ problem, advisory }) => problem !== null && !advisory)
      if (failing.length === 0) return { status: 'ready' as const, checks: results }
      const names = failing.map(({ name }) => name).join(', ')
      const problem = problemOf(new HubError('unavailable', `Not ready: ${names}.`), request.id)
      const errors = failing.map(({ name, problem: message }) => ({ path: name, message: message ?? '' }))
      return await sendProblem(reply, { ...problem, errors })
    },
  })
}

type Checked = { name: string; problem: string | null; advisory: boolean }

async function run({ name, check, advisory = false }: ReadinessCheck, log: Log): Promise<Checked> {
  try {
    return { name, problem: await check(), advisory }
  } catch (error) {
    log.warn({ check: name, err: error }, CHECK_FAILED)
    return { name, problem: CHECK_FAILED, advisory }
  }
}

const METRICS_EXAMPLE = `# HELP hub_http_requests_total Requests by route
# TYPE hub_http_requests_total counter
hub_http_requests_total{method="GET",route="/v1/events",status="2xx"} 128
`

function addMetrics(api: Api, metrics: Registry): void {
  api.route({
    method: 'GET',
    url: '/metrics',
    config: { access: 'public' },
    schema: {
      operationId: 'metrics',
      summary: 'Prometheus metrics',
      description: 'Those of this process, in the text format of Prometheus. docs/operations.md says which to watch.',
      tags,
      response: {
        200: {
          description: 'The exposition format',
          content: { 'text/plain': { schema: Type.String({ description: 'Text.' }), example: METRICS_EXAMPLE } },
        },
      },
    },
    handler: async (_request, reply) => await reply.type(metrics.contentType).send(await metrics.metrics()),
  })
}
