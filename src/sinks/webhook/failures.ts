// What went wrong with a request, in the few classes that people and rules tell apart. A detail is a fixed sentence and at most
// an error code: nothing of it comes from behind an address, and a refused address is never said.
import type { FailureClass, Outcome } from '../sink.ts'

export type Failed = Extract<Outcome, { kind: 'failed' }>

/** All that is said of a refused address, whatever it is and whoever listens there. */
export const REFUSED = 'The address is one that the hub does not connect to.'

/** A failure without an answer, unless `answer` holds what is known of one. */
export function failed(
  errorClass: FailureClass,
  detail: string,
  answer: Partial<Pick<Failed, 'status' | 'response' | 'retryAfter'>> = {},
): Failed {
  return { kind: 'failed', errorClass, detail, status: null, response: Buffer.alloc(0), retryAfter: null, ...answer }
}

/** The failure that an error of the HTTP client means. */
export function failureOf(error: unknown): Failed {
  const codes = codesOf(error)
  const code = codes[0]
  if (code === undefined) return failed('internal', 'The hub failed to make the request.')
  if (codes.includes('ERR_IP_BLOCKED')) return failed('refused_address', REFUSED)
  if (code.startsWith('PROXY_')) return failed('proxy', `The hub's proxy cannot be used (${code}).`)
  if (code.startsWith('TUNNEL_')) return failed('tunnel', `The hub's proxy does not reach the host (${code}).`)
  if (TIMEOUT.test(code)) return failed('timeout', `The connection was not made in time (${code}).`)
  if (DNS.test(code)) return failed('dns', `The host's name could not be resolved (${code}).`)
  if (TLS.test(code)) return failed('tls', `No trusted TLS connection could be made (${code}).`)
  if (UNUSABLE.test(code)) return failed('invalid_destination', `The URL or a header cannot be used (${code}).`)
  if (OURS.test(code)) return failed('internal', `The hub failed to make the request (${code}).`)
  return failed('connection', `The connection failed before an answer had come (${code}).`)
}

const TIMEOUT = /^(ETIMEDOUT|UND_ERR_\w+_TIMEOUT)$/
const DNS = /^(ENOTFOUND|EAI_\w+)$/
/** OpenSSL's and X.509's codes have no common prefix. */
const TLS =
  /^(ERR_TLS_|ERR_SSL_|EPROTO$|UNABLE_TO_|INVALID_CA$|INVALID_PURPOSE$|HOSTNAME_MISMATCH$|PATH_LENGTH)|CERT|CRL_/
const UNUSABLE = /^(UND_ERR_INVALID_ARG|UND_ERR_NOT_SUPPORTED|ERR_INVALID_URL)$/
const OURS = /^UND_ERR_(DESTROYED|CLOSED)$/

/** The code of an error; of several addresses tried in vain, that of each. */
function codesOf(error: unknown): string[] {
  if (!(error instanceof Error)) return []
  if (error.name === 'HTTPParserError') return [error.name]
  const own = 'code' in error && typeof error.code === 'string' ? [error.code] : []
  return error instanceof AggregateError ? [...own, ...error.errors.flatMap(codesOf)] : own
}
