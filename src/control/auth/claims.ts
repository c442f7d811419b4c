// What the claims of a token that was found valid say of its bearer.
import { createHash } from 'node:crypto'
import type { JWTPayload } from 'jose'
import { HubError } from '../../base/errors.ts'
import { isTenantId } from '../../event/tenant-id.ts'
import { isScope, type Scope } from './principal.ts'

const MAX_NAME = 200

/** Null where the claim is missing. Throws `unauthenticated` for one that names no tenant. */
export function tenantOf(claims: JWTPayload, claim: string): string | null {
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  if (value === undefined || value === null) return null
  if (typeof value === 'string' && isTenantId(value)) return value
  throw new HubError('unauthenticated', 'The token names its tenant in a way that cannot be used.')
}

/** Those of ours that `scope` (RFC 8693) or `scp` lists, as text or as an array. */
export function scopesOf({ scope, scp }: JWTPayload): ReadonlySet<Scope> {
  const listed = [scope, scp].flat().flatMap((value) => (typeof value === 'string' ? value.split(' ') : []))
  return new Set(listed.filter(isScope))
}

/** The subject, cut to what a log line takes; null where there is none. */
export function subjectOf({ sub }: JWTPayload): string | null {
  return typeof sub === 'string' && sub !== '' ? sub.slice(0, MAX_NAME).toWellFormed() : null
}

/** Tells the bearer from all others: by its subject, or else by the token. Never a credential. */
export function callerIdOf(claims: JWTPayload, token: string): string {
  const { sub } = claims
  const subject = subjectOf(claims)
  if (subject !== null && subject === sub) return subject
  const text = typeof sub === 'string' && sub !== '' ? sub : token
  return `sha256:${createHash('sha256').update(text).digest('base64url')}`
}
