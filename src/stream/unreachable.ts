// Why the brokers cannot be reached, as whoever configures the hub needs to hear it: a certificate that is not trusted, a login that
// is refused, and TLS on one side only look alike from afar, and each has its own cure. Holds no secret: brokers answer without them.
import { code, sentence } from './kafka-error.ts'
import { TokenError } from './token-source.ts'

/** Of what a broker says, in characters. */
const LONGEST = 200
/** What the library says when the other side hangs up: on a request, and before the first one. */
const CLOSED = 'Connection closed'
const CLOSED_EARLY = 'Connection closed while waiting for ready.'

// OpenSSL's verdicts about a chain, as Node names them.
const UNTRUSTED = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])
const UNFIT = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_SIGNATURE_FAILURE',
  'CERT_REVOKED',
  'INVALID_PURPOSE',
  'ERR_TLS_CERT_ALTNAME_INVALID',
])

/** An error, with what Node, the library and the broker may have added to it. */
interface Found extends Error {
  code?: string
  apiCode?: number
  serverErrorMessage?: string | null
  response?: { mechanisms?: string[] }
}

/** How the hub tries to get in. */
export interface WayIn {
  tls: boolean
  login: boolean
  /** It has worked before: whoever hangs up now does not do so for want of a login or of TLS. */
  proven: boolean
}

/** One sentence. */
export function whyUnreachable(error: unknown, way: WayIn): string {
  const all = [...causes(error)]
  const unheld = all.find((each) => each instanceof TokenError)
  if (unheld) return sentence(unheld)
  const who = all.map(({ message }) => /^Connection to (\S+) failed/.exec(message)?.[1]).find(Boolean) ?? 'the broker'
  const problem =
    certificateProblem(all) ?? hangUpProblem(all, way) ?? loginProblem(all) ?? tlsProblem(all) ?? nameProblem(all)
  return problem === null ? sentence(error) : `${who} ${problem}`
}

function certificateProblem(all: readonly Found[]): string | null {
  for (const { code: verdict = '', message } of all) {
    // Node adds advice for its own command line behind a semicolon.
    const found = message.split(';')[0] ?? ''
    if (UNTRUSTED.has(verdict))
      return `has a certificate that is not trusted (${found}): name its authority in STREAMING_HUB_KAFKA_CA_CERT`
    if (UNFIT.has(verdict)) return `has a certificate that is not accepted (${found})`
  }
  return null
}

/** That is how Kafka answers whoever speaks without TLS or a login where it wants one. */
function hangUpProblem(all: readonly Found[], { tls, login, proven }: WayIn): string | null {
  const last = all.at(-1)?.message
  if (last !== CLOSED && last !== CLOSED_EARLY) return null
  if (!login && proven) return null
  if (!login)
    return 'closes the connection without an answer: it may want a login (STREAMING_HUB_KAFKA_SCRAM_… or STREAMING_HUB_KAFKA_OAUTH_…)'
  if (last === CLOSED && !isAboutLogin(all)) return null
  return tls || proven
    ? 'closes the connection before the login is done'
    : 'closes the connection before the login: it may want TLS, and STREAMING_HUB_KAFKA_TLS_ENABLED is false'
}

function isAboutLogin(all: readonly Found[]): boolean {
  return all.some((each) => each.code === 'PLT_KFK_AUTHENTICATION')
}

function loginProblem(all: readonly Found[]): string | null {
  if (!isAboutLogin(all)) return null
  if (all.some((each) => each.code === 'PLT_KFK_TIMEOUT')) return 'does not answer the login in time'
  if (all.some(({ apiCode }) => apiCode === code.ILLEGAL_SASL_STATE))
    return 'takes no login here: leave STREAMING_HUB_KAFKA_SCRAM_… and STREAMING_HUB_KAFKA_OAUTH_… out'
  if (all.some(({ apiCode }) => apiCode === code.UNSUPPORTED_SASL_MECHANISM)) {
    const known = all.flatMap(({ response }) => response?.mechanisms ?? [])
    return `does not know this way to log in: it offers ${known.join(', ').slice(0, LONGEST) || 'none'}`
  }
  const said = all.map(({ serverErrorMessage }) => serverErrorMessage).find(Boolean) ?? all.at(-1)?.message ?? ''
  return `refuses the login: ${said.slice(0, LONGEST).replace(/\.$/, '')}`
}

function tlsProblem(all: readonly Error[]): string | null {
  const told = all.map(({ message }) => message)
  if (told.includes('Broker requires TLS.')) return 'wants TLS, and STREAMING_HUB_KAFKA_TLS_ENABLED is false'
  if (told.some((message) => message.startsWith('TLS handshake failed'))) return 'does not speak TLS'
  return null
}

function nameProblem(all: readonly Found[]): string | null {
  return all.some((each) => each.code === 'ENOTFOUND')
    ? "has a name that is not known here: see STREAMING_HUB_KAFKA_BROKERS and the brokers' own advertised.listeners"
    : null
}

/** The error itself, and everything that it holds. */
function* causes(error: unknown): Generator<Found> {
  if (!(error instanceof Error)) return
  yield error
  const { errors, cause } = error as { errors?: unknown[]; cause?: unknown }
  for (const each of errors ?? []) yield* causes(each)
  yield* causes(cause)
}
