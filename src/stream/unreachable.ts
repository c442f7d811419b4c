// Why the brokers cannot be reached, as whoever configures the hub needs to hear it: a certificate that is not trusted, a login that
// is refused, and TLS on one side only look alike from afar, and each has its own cure. Holds no secret: brokers answer without them.
import { sentence } from './kafka-error.ts'
import { TokenError } from './token-source.ts'

/** Of what a broker says, in characters. */
const LONGEST = 200

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

/** One sentence. */
export function whyUnreachable(error: unknown): string {
  const all = [...causes(error)]
  const unheld = all.find((each) => each instanceof TokenError)
  if (unheld) return sentence(unheld)
  const who = all.map(({ message }) => /^Connection to (\S+) failed/.exec(message)?.[1]).find(Boolean) ?? 'the broker'
  const problem = certificateProblem(all) ?? loginProblem(all) ?? tlsProblem(all)
  return problem === null ? sentence(error) : `${who} ${problem}`
}

function certificateProblem(all: readonly NodeJS.ErrnoException[]): string | null {
  for (const { code = '', message } of all) {
    // Node adds advice for its own command line behind a semicolon.
    const found = message.split(';')[0] ?? ''
    if (UNTRUSTED.has(code))
      return `has a certificate that is not trusted (${found}): name its authority in STREAMING_HUB_KAFKA_CA_CERT`
    if (UNFIT.has(code)) return `has a certificate that is not accepted (${found})`
  }
  return null
}

function loginProblem(all: readonly (Error & { code?: string; serverErrorMessage?: string | null })[]): string | null {
  if (!all.some(({ code }) => code === 'PLT_KFK_AUTHENTICATION')) return null
  const said = all.map(({ serverErrorMessage }) => serverErrorMessage).find(Boolean) ?? all.at(-1)?.message ?? ''
  return `refuses the login: ${said.slice(0, LONGEST).replace(/\.$/, '')}`
}

function tlsProblem(all: readonly Error[]): string | null {
  const told = all.map(({ message }) => message)
  if (told.includes('Broker requires TLS.')) return 'wants TLS, and STREAMING_HUB_KAFKA_TLS_ENABLED is false'
  if (told.some((message) => message.startsWith('TLS handshake failed'))) return 'does not speak TLS'
  return null
}

/** The error itself, and everything that it holds. */
function* causes(error: unknown): Generator<Error> {
  if (!(error instanceof Error)) return
  yield error
  const { errors, cause } = error as { errors?: unknown[]; cause?: unknown }
  for (const each of errors ?? []) yield* causes(each)
  yield* causes(cause)
}
