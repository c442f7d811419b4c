// One problem of each code, as the API's document shows it: with what the hub says in a typical case.
import { HubError, type ErrorCode, type Fault } from '../base/errors.ts'
import { problemOf, type Problem } from './problems.ts'

const REQUEST_ID = '019e2687-ca90-7c40-8a5e-1d2f3b4c5d6e'

/** `code` as a caller gets it. */
export function exampleProblem(code: ErrorCode): Problem {
  const { detail, errors = [] } = CASES[code]
  return problemOf(new HubError(code, detail, { faults: errors }), REQUEST_ID)
}

const CASES: Record<ErrorCode, { detail: string; errors?: Fault[] }> = {
  invalid_request: {
    detail: 'The request is not valid: ?limit must be a whole number from 1 to 1000.',
    errors: [{ path: '?limit', message: 'must be a whole number from 1 to 1000' }],
  },
  unauthenticated: { detail: 'The request carries no credential that is accepted here.' },
  forbidden: { detail: 'This needs the scope subscriptions:write.' },
  not_found: { detail: 'There is no such object.' },
  method_not_allowed: { detail: 'This path takes GET, POST.' },
  request_timeout: { detail: 'The request did not arrive in time.' },
  idempotency_in_progress: { detail: 'The first request with this key is under way: ask again.' },
  conflict: { detail: 'It was finished at this very moment; look at it, and ask again if you still want to.' },
  precondition_failed: {
    detail: 'It is in another version than If-Match or If-None-Match asks for: read it again.',
  },
  payload_too_large: { detail: 'The body is too large.' },
  unsupported_media_type: {
    detail: 'content-type is another: send application/json or application/merge-patch+json.',
    errors: [{ path: 'content-type', message: 'is another: send application/json or application/merge-patch+json' }],
  },
  idempotency_key_reused: { detail: 'This key was used for another request: take a new one for a new request.' },
  unprocessable: { detail: 'The request cannot be carried out as things are.' },
  headers_too_large: { detail: 'The URL and the headers are too large.' },
  rate_limited: { detail: 'The limit default-key is 500 requests in 60 s.' },
  internal: { detail: 'Something went wrong inside; the request id finds it in the log.' },
  unavailable: { detail: 'The database cannot be reached at the moment.' },
}
