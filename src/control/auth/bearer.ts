// What an `Authorization: Bearer` header brings (RFC 6750), and what a JWT says of itself before anybody has checked it.
import { decodeJwt, type JWTPayload } from 'jose'
import type { FastifyRequest } from 'fastify'

const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i
const JWS = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$/

/** Null where there is none. */
export function bearerToken({ headers }: FastifyRequest): string | null {
  return BEARER.exec(headers.authorization ?? '')?.[1] ?? null
}

/** The claims of a signed JWT, unchecked; null for a token that is none. */
export function uncheckedClaims(token: string): JWTPayload | null {
  if (!JWS.test(token)) return null
  try {
    return decodeJwt(token)
  } catch {
    return null
  }
}
