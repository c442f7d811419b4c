// The one catalogue of operating errors: a stable code, the HTTP status it becomes, and whether trying again can help.
// `docs/errors.md` lists the same codes (a test holds the two together). A broken assumption is an `assert`, not one of these.

export const errorCatalogue = {
  invalid_request: { status: 400, retryable: false, title: 'The request is malformed' },
  unauthenticated: { status: 401, retryable: false, title: 'Authentication is required' },
  forbidden: { status: 403, retryable: false, title: 'The credential does not allow this' },
  not_found: { status: 404, retryable: false, title: 'There is no such object' },
  method_not_allowed: { status: 405, retryable: false, title: 'The path does not take this method' },
  request_timeout: { status: 408, retryable: true, title: 'The request took too long to arrive' },
  idempotency_in_progress: { status: 409, retryable: true, title: 'The first request with this key is under way' },
  conflict: { status: 409, retryable: false, title: 'The object is not in a state that allows this' },
  precondition_failed: { status: 412, retryable: false, title: 'The object is in another version than was asked for' },
  payload_too_large: { status: 413, retryable: false, title: 'The body is too large' },
  unsupported_media_type: { status: 415, retryable: false, title: 'The content type is not supported' },
  idempotency_key_reused: { status: 422, retryable: false, title: 'The key was used for another request' },
  unprocessable: { status: 422, retryable: false, title: 'The request is well-formed but cannot be carried out' },
  headers_too_large: { status: 431, retryable: false, title: 'The headers are too large' },
  rate_limited: { status: 429, retryable: true, title: 'Too many requests' },
  internal: { status: 500, retryable: true, title: 'The hub failed' },
  unavailable: { status: 503, retryable: true, title: 'The hub cannot serve this now' },
} as const satisfies Record<string, { status: number; retryable: boolean; title: string }>

export type ErrorCode = keyof typeof errorCatalogue

/** One fault of a request: `path` is a JSON pointer into the body, or `?name` of a query parameter, or a header's name. */
export interface Fault {
  path: string
  message: string
}

/** An operating error that a caller can be told about: `message` is shown as the problem's detail and holds no secret. */
export class HubError extends Error {
  readonly code: ErrorCode
  readonly faults: readonly Fault[]

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; faults?: readonly Fault[] } = {}) {
    super(message, { cause: options.cause })
    this.name = 'HubError'
    this.code = code
    this.faults = options.faults ?? []
  }
}

/** The text of whatever was thrown, for a log line. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
