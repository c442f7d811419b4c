// Every error of the API is a problem (RFC 9457) with a code of the catalogue. What was not foreseen becomes `internal`, and
// its message stays in the log: it may hold anything.
import type { FastifyReply } from 'fastify'
import { HubError, errorCatalogue, type ErrorCode, type Fault } from '../base/errors.ts'
import { SecretError } from '../secrets/secrets.ts'
import { isOutage } from '../store/outage.ts'

export const PROBLEM_JSON = 'application/problem+json'
/** Where nothing better is known. */
const RETRY_AFTER_SECONDS = 5
/** A framework may quote the request. */
const MAX_DETAIL = 300

export interface Problem {
  /** Stable, one for each code; not an address. */
  type: string
  title: string
  status: number
  detail: string
  code: ErrorCode
  /** Trying the same again later can help. */
  retryable: boolean
  errors: Fault[]
  request_id: string
}

/** What the caller is told of `error`. */
export function problemOf(error: unknown, requestId: string): Problem {
  const { code, message, faults } = knownError(error)
  const { status, title, retryable } = errorCatalogue[code]
  return {
    type: problemType(code),
    title,
    status,
    detail: message,
    code,
    retryable,
    errors: [...faults],
    request_id: requestId,
  }
}

/** The `type` of the problems of one code. */
export function problemType(code: ErrorCode): string {
  return `urn:streaming-hub:problem:${code}`
}

export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  // Also where a request was refused before any hook of ours had seen it.
  reply.headers({ 'cache-control': 'no-store', 'x-request-id': problem.request_id })
  const isLater = problem.status === 429 || problem.status === 503
  if (isLater && !reply.hasHeader('retry-after')) reply.header('retry-after', RETRY_AFTER_SECONDS)
  return reply.code(problem.status).type(PROBLEM_JSON).send(problem)
}

function knownError(error: unknown): HubError {
  if (error instanceof HubError) return error
  if (isOutage(error)) return new HubError('unavailable', 'The database cannot be reached at the moment.')
  if (error instanceof SecretError)
    return new HubError('unavailable', 'A stored secret cannot be opened at the moment.')
  return (
    ofTheFramework(error) ??
    new HubError('internal', 'Something went wrong inside; the request id finds it in the log.')
  )
}

/** Of several codes with one status the last: the one that says no more than the status. */
const CODE_OF_STATUS = new Map<number, ErrorCode>(
  Object.entries(errorCatalogue).map(([code, { status }]) => [status, code as ErrorCode]),
)

/** Fastify's own refusals carry a 4xx and a message that speaks of the request alone. */
function ofTheFramework(error: unknown): HubError | null {
  if (!(error instanceof Error)) return null
  const { statusCode: status } = error as { statusCode?: unknown }
  if (typeof status !== 'number' || status < 400 || status > 499) return null
  const code = CODE_OF_STATUS.get(status) ?? 'invalid_request'
  return new HubError(code, sentence(error.message.slice(0, MAX_DETAIL)))
}

function sentence(message: string): string {
  return message.endsWith('.') ? message : `${message}.`
}
