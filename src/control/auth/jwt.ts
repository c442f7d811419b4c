// JSON Web Tokens of an issuer that the installation trusts, verified by the keys that it publishes (JWKS). Only asymmetric
// signatures count, so nobody can sign with what is public. Keys are fetched when they are needed and kept for ten minutes; a key
// id that is not among them is looked for again, but not more often than every ten seconds, whatever tokens come.
import type { FastifyRequest } from 'fastify'
import { createRemoteJWKSet, customFetch, errors, jwtVerify } from 'jose'
import type { JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose'
import type { Clock } from '../../base/clock.ts'
import { HubError, messageOf } from '../../base/errors.ts'
import type { Troubles } from '../../base/troubles.ts'
import type { Authenticator } from './authenticate.ts'
import { bearerToken, uncheckedClaims } from './bearer.ts'
import { callerIdOf, scopesOf, subjectOf, tenantOf } from './claims.ts'

export interface JwtSettings {
  jwksUrl: string
  issuer: string
  audience: string
  /** The claim that names the tenant. */
  tenantClaim: string
}

export interface JwtDeps {
  clock: Clock
  troubles: Troubles
}

const ALGORITHMS = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ')
/** Of clocks here and at the issuer. */
const LEEWAY_SECONDS = 30
const KEYS = { cacheMaxAge: 600_000, cooldownDuration: 10_000, timeoutDuration: 3_000 }
/** How long the keys are not asked for again after that failed: all tokens until then are answered by the failure. */
const PAUSE_MS = 2_000
const KEYS_AWAY = 'the keys that verify tokens cannot be fetched: nobody gets in by one'

/** Takes a bearer token for its own that names the issuer; whoever names no tenant belongs to none. */
export function jwtAuthenticator(settings: JwtSettings, { clock, troubles }: JwtDeps): Authenticator {
  const { issuer, audience, tenantClaim } = settings
  const keys = createRemoteJWKSet(new URL(settings.jwksUrl), { ...KEYS, [customFetch]: patientFetch(clock) })
  const verify = async (token: string): Promise<JWTPayload> => {
    const currentDate = new Date(clock.now())
    const rules = { issuer, audience, algorithms: ALGORITHMS, clockTolerance: LEEWAY_SECONDS, requiredClaims: ['exp'] }
    try {
      const claims = await verifyByAny(token, keys, { ...rules, currentDate })
      troubles.clear(KEYS_AWAY)
      return claims
    } catch (error) {
      if (isTokensFault(error)) throw new HubError('unauthenticated', 'The token is not valid.', { cause: error })
      troubles.raise(KEYS_AWAY, `${messageOf(error)} (${new URL(settings.jwksUrl).host})`)
      throw new HubError('unavailable', 'Tokens cannot be verified at the moment.', { cause: error })
    }
  }
  return {
    name: 'jwt',
    authenticate: async (request: FastifyRequest) => {
      const token = bearerToken(request)
      if (token === null || uncheckedClaims(token)?.iss !== issuer) return null
      const claims = await verify(token)
      const tenantId = tenantOf(claims, tenantClaim)
      const actor = { kind: 'jwt', id: callerIdOf(claims, token), name: subjectOf(claims) ?? 'a token' } as const
      return { ...actor, tenantId, isConfined: tenantId !== null, scopes: scopesOf(claims) }
    },
  }
}

/** A token that names no key is tried by each that it could be of: while keys are rotated there are several. */
async function verifyByAny(token: string, keys: JWTVerifyGetKey, rules: JWTVerifyOptions): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, keys, rules)).payload
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    for await (const key of error) {
      const found = await jwtVerify(token, key, rules).catch((fault: unknown) => {
        if (!(fault instanceof errors.JWSSignatureVerificationFailed)) throw fault
      })
      if (found) return found.payload
    }
    throw error
  }
}

const TOKEN_FAULTS = [
  errors.JWTExpired,
  errors.JWTClaimValidationFailed,
  errors.JWTInvalid,
  errors.JWSInvalid,
  errors.JWSSignatureVerificationFailed,
  errors.JOSEAlgNotAllowed,
  errors.JOSENotSupported,
  errors.JWKSNoMatchingKey,
  errors.JWKSMultipleMatchingKeys,
]

/** All else is a fault of the keys: they did not come, or cannot be used. */
function isTokensFault(error: unknown): boolean {
  return TOKEN_FAULTS.some((fault) => error instanceof fault)
}

/** One failure answers for a while. */
function patientFetch(clock: Clock): typeof fetch {
  let failed: { at: number; error: unknown } | null = null
  return async (...request) => {
    const since = failed === null ? PAUSE_MS : clock.now() - failed.at
    if (failed !== null && since >= 0 && since < PAUSE_MS) throw failed.error
    try {
      const keys = await readKeys(await fetch(...request))
      failed = null
      return Response.json(keys)
    } catch (error) {
      failed = { at: clock.now(), error }
      throw error
    }
  }
}

async function readKeys(response: Response): Promise<unknown> {
  if (response.status !== 200) throw new Error(`the keys' address answers ${response.status}`)
  const keys: unknown = await response.json()
  if (typeof keys === 'object' && keys !== null && 'keys' in keys && Array.isArray(keys.keys)) return keys
  throw new Error("the keys' address answers something else than keys")
}
