// The HTTP server under all routes: ids, authentication, problems, headers, metrics, and one log line for each request. A route
// that does not say who may call it is refused at start.
import assert from 'node:assert/strict'
import { randomUUIDv7 } from 'node:crypto'
import { STATUS_CODES, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import helmet from '@fastify/helmet'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { LogController, fastify, type FastifyReply, type FastifyRequest, type RouteOptions } from 'fastify'
import { HubError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import type { Api } from './api.ts'
import { createAdmission, type Admission, type AdmissionDeps, type RouteLimit } from './admission.ts'
import { takeIdempotencyKeys, type IdempotencyDeps } from './idempotency.ts'
import type { HttpMetrics } from './metrics.ts'
import { DOCS_PREFIX } from './openapi.ts'
import { HTTP_TIMES, boundConnections, serverTimes, type HttpTimes } from './overload.ts'
import { PROBLEM_JSON, problemOf, sendProblem } from './problems.ts'
import { documentRoute } from './route-docs.ts'
import { RouteTable } from './route-table.ts'
import { refuseBrokenQueries } from './query.ts'
import { readJsonBodies } from './request-body.ts'
import { validatorCompiler } from './validation.ts'

/** Of JSON requests; ingest has its own. */
const BODY_LIMIT_BYTES = 256 * 1024
/** A tenant's name may be in a path, percent-encoded. */
const MAX_PARAM_LENGTH = 2048
/** The hub may be reached over plain HTTP inside a cluster: what ends TLS in front of it upgrades and pins. */
const POLICY = { directives: { upgradeInsecureRequests: null } }
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

export interface HttpDeps extends AdmissionDeps, IdempotencyDeps {
  log: Log
  /** Aborted when the hub begins to stop: it still serves, and asks its callers to go elsewhere. */
  stopping: AbortSignal
  /** Addresses and networks whose `X-Forwarded-For` is believed. */
  trustedProxies: readonly string[]
  /** `HTTP_TIMES` where they are not given. */
  times?: HttpTimes
}

/** An instance without routes, not listening. */
export function createHttp(deps: HttpDeps, metrics: HttpMetrics): Api {
  const app = fastify({
    loggerInstance: deps.log,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: requestId,
    bodyLimit: BODY_LIMIT_BYTES,
    trustProxy: deps.trustedProxies.length > 0 && [...deps.trustedProxies],
    ...serverTimes(deps.times ?? HTTP_TIMES),
    // What comes on an open connection while the server closes is still answered.
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH, ignoreTrailingSlash: true },
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (error, request, reply) => answerError(error, request, reply),
  }).withTypeProvider<TypeBoxTypeProvider>() as unknown as Api
  app.setValidatorCompiler(validatorCompiler)
  // Answers are made by typed views, and a test holds them to their schemas.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  app.decorateRequest('principal', null)
  app.setErrorHandler(answerError)
  boundConnections(app, metrics)
  addRouteRules(app, createAdmission(deps, metrics), deps)
  addHeaders(app, deps.stopping)
  addReports(app, metrics)
  readJsonBodies(app)
  return app
}

function requestId(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUIDv7()
}

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const problem = problemOf(error, request.id)
  // That something is away or overloaded has been said where it was found out; here it would be said for each request.
  const isKnown = error instanceof HubError && error.code === 'unavailable'
  if (problem.status >= 500) request.log[isKnown ? 'debug' : 'error']({ err: error }, problem.detail)
  sendProblem(reply, problem)
}

/** What is no HTTP at all never gets to a route. */
function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const problem = problemOf(brokenRequest(error.code), randomUUIDv7())
  const { status } = problem
  const body = JSON.stringify(problem)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `content-type: ${PROBLEM_JSON}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${problem.request_id}`,
    'cache-control: no-store',
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function brokenRequest(code: string | undefined): HubError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new HubError('request_timeout', 'The request did not arrive in time.')
  if (code === 'HPE_HEADER_OVERFLOW') return new HubError('headers_too_large', 'The URL and the headers are too large.')
  return new HubError('invalid_request', 'The request is not HTTP that can be read.')
}

/** Each route says who may call it; unknown paths are 404, known ones with another method 405. */
function addRouteRules(app: Api, admission: Admission, idempotency: IdempotencyDeps): void {
  const table = new RouteTable()
  app.addHook('onRoute', (route) => {
    table.add(route)
    const access = route.config?.access ?? (route.url.startsWith(DOCS_PREFIX) ? 'public' : undefined)
    assert(access, `the route ${String(route.method)} ${route.url} does not say who may call it`)
    const takesKey =
      [route.method].flat().includes('POST') && access !== 'public' && route.config?.idempotencyKey !== false
    if (access !== 'public') refuseBrokenQueries(route)
    const limit = route.config?.limit ?? usualLimit(route)
    documentRoute(route, { access, limit, takesKey, takesBody: takesBody(route) })
    if (access === 'public') return
    const rule = { access, limit }
    const guard = async (request: FastifyRequest, reply: FastifyReply) => await admission(request, reply, rule)
    route.onRequest = [guard, ...[route.onRequest ?? []].flat()]
    if (takesKey) takeIdempotencyKeys(route, idempotency)
  })
  app.setNotFoundHandler((request, reply) => {
    const allowed = table.methodsOf(request.url)
    if (allowed.length === 0) throw new HubError('not_found', 'There is no such path.')
    reply.header('allow', allowed.join(', '))
    throw new HubError('method_not_allowed', `This path takes ${allowed.join(', ')}.`)
  })
}

function usualLimit(route: RouteOptions): RouteLimit {
  return takesBody(route) ? 'default' : 'relaxed'
}

function takesBody({ method }: RouteOptions): boolean {
  return [method].flat().some((each) => each !== 'GET' && each !== 'HEAD')
}

function addHeaders(app: Api, stopping: AbortSignal): void {
  void app.register(helmet, { strictTransportSecurity: false, contentSecurityPolicy: POLICY })
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    reply.header('cache-control', 'no-store')
  })
  // A kept connection that is closed between two requests may be closed under the second one: so with the answer.
  app.addHook('onSend', async (_request, reply) => {
    if (stopping.aborted) reply.header('connection', 'close')
  })
}

function addReports(app: Api, metrics: HttpMetrics): void {
  app.addHook('onResponse', async (request, reply) => {
    const { method } = request
    const route = request.routeOptions.url ?? 'unknown'
    metrics.requests.inc({ method, route, status: `${Math.floor(reply.statusCode / 100)}xx` })
    metrics.seconds.observe({ method, route }, reply.elapsedTime / 1000)
    const { tenantId: tenant_id, name: caller } = request.principal ?? {}
    const line = {
      method,
      route,
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime),
      tenant_id,
      caller,
    }
    // Probes of health come every few seconds for ever.
    request.log[request.principal ? 'info' : 'debug'](line, 'request')
  })
}
