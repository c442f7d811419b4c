// What the API's document says of a route beyond what its own schema says: the problems, headers and credentials that follow from its form.
import type { RouteOptions } from 'fastify'
import { errorCatalogue, type ErrorCode } from '../base/errors.ts'
import type { RouteLimit } from './admission.ts'
import type { Scope } from './auth/principal.ts'
import { IDEMPOTENCY_HEADER } from './idempotency.ts'
import { securityOf } from './openapi.ts'
import { exampleProblem } from './problem-examples.ts'
import { PROBLEM_JSON, problemType } from './problems.ts'
import type { AnswerHeader } from './schemas/answers.ts'
import { ProblemSchema, refer, withMore } from './schemas/common.ts'

export interface RouteForm {
  access: Scope | 'public'
  limit: RouteLimit
  /** It takes an `Idempotency-Key`. */
  takesKey: boolean
  /** Its method is one that has a body. */
  takesBody: boolean
}

/** Completes what a route's schema says of it. Only the document reads it, but for the header of the key, which is checked too. */
export function documentRoute(route: RouteOptions, form: RouteForm): void {
  if (form.takesKey) documentKey(route)
  const { schema } = route
  if (!schema || (schema as { hide?: boolean }).hide) return
  schema.security = form.access === 'public' ? [] : securityOf(form.access)
  const answers = { ...problemsOf(route, form), ...(schema.response as Record<string, object> | undefined) }
  schema.response = Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [status, withHeaders(answer, headersOf(Number(status), form))]),
  )
}

function documentKey(route: RouteOptions): void {
  const schema = (route.schema ??= {})
  const headers = (schema.headers ?? { type: 'object' }) as { properties?: object }
  schema.headers = withMore(headers, { properties: { ...headers.properties, 'idempotency-key': IDEMPOTENCY_HEADER } })
}

/** What a request may meet wherever it goes. */
const ANY_ROUTE = ['request_timeout', 'headers_too_large', 'internal', 'unavailable'] as const

/** By status: the problems that follow from the route's form, and those that it names. */
function problemsOf({ schema, config }: RouteOptions, form: RouteForm): Record<string, object> {
  const takesInput = schema?.body ?? schema?.querystring ?? schema?.params
  const codes: ErrorCode[] = [
    ...(takesInput ? (['invalid_request'] as const) : []),
    ...(form.access === 'public' ? [] : (['unauthenticated', 'forbidden', 'rate_limited'] as const)),
    // A body that nobody asked for is refused too when it is too large.
    ...(form.takesBody ? (['payload_too_large', 'unsupported_media_type'] as const) : []),
    ...(config?.problems ?? []),
    ...(form.takesKey ? (['invalid_request', 'idempotency_in_progress', 'idempotency_key_reused'] as const) : []),
    ...ANY_ROUTE,
  ]
  const byStatus = Map.groupBy(new Set(codes), (code) => errorCatalogue[code].status)
  return Object.fromEntries([...byStatus].map(([status, of]) => [status, problemAnswer(of)]))
}

function problemAnswer(codes: readonly ErrorCode[]): object {
  const examples = codes.map((code) => [code, { summary: errorCatalogue[code].title, value: exampleProblem(code) }])
  return {
    description: codes.map((code) => `${code}: ${errorCatalogue[code].title} (${problemType(code)})`).join('; '),
    content: { [PROBLEM_JSON]: { schema: refer(ProblemSchema), examples: Object.fromEntries(examples) } },
  }
}

function withHeaders(answer: object, headers: Record<string, AnswerHeader>): object {
  return withMore(answer, { headers: { ...headers, ...(answer as { headers?: object }).headers } })
}

const REQUEST_ID: AnswerHeader = {
  type: 'string',
  description: 'The `x-request-id` that was sent, or one that was made for the request: finds it in the log.',
  'x-required': true,
  examples: ['019e2687-ca90-7c40-8a5e-1d2f3b4c5d6e'],
}
const RETRY_AFTER = {
  type: 'integer',
  description: 'Seconds after which to ask again.',
  examples: [1],
} as const satisfies AnswerHeader
const REPLAYED: AnswerHeader = {
  type: 'string',
  description:
    '`true`: this is the first answer to the same `idempotency-key`, once more. Not there on a first answer.',
  examples: ['true'],
}
const RATE_LIMIT: Record<string, AnswerHeader> = {
  'ratelimit-policy': {
    type: 'string',
    description:
      'The limits that the request counts against: `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers). Not there where nothing is limited.',
    examples: ['"default-key";q=500;w=60, "default-tenant";q=2000;w=60'],
  },
  ratelimit: {
    type: 'string',
    description: 'Of each limit, how many requests are left (`r`), and the seconds until they are all back (`t`).',
    examples: ['"default-key";r=499;t=60, "default-tenant";r=1991;t=42'],
  },
}
/** Answers that a key may bring again. */
const KEPT = new Set([404, 409, 422])

/** The headers of every answer of this status, and of a route of this form. */
function headersOf(status: number, form: RouteForm): Record<string, AnswerHeader> {
  const isDone = status < 400
  const isCounted = form.access !== 'public' && form.limit !== 'ingest' && (isDone || status === 429)
  const isReplayed = form.takesKey && (isDone || KEPT.has(status))
  const isLater = status === 429 || status === 503
  return {
    'x-request-id': REQUEST_ID,
    ...(isCounted && RATE_LIMIT),
    ...(isReplayed && { 'idempotent-replayed': REPLAYED }),
    ...(isLater && { 'retry-after': { ...RETRY_AFTER, 'x-required': true as const } }),
    ...(status === 409 && form.takesKey && { 'retry-after': { ...RETRY_AFTER, description: IN_PROGRESS } }),
  }
}

const IN_PROGRESS = 'Seconds after which to ask again; with `idempotency_in_progress` only.'
