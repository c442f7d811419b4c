// The form of an API key: `shk_<prefix>_<secret>`. The prefix is shown and finds the key; the secret, 32 random bytes, is shown once
// and stored as its SHA-256. Anybody who finds one lying about can tell what it is.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

const FORM = /^shk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})$/

export interface GivenKey {
  prefix: string
  secretSha256: Buffer
}

/** `text` is nowhere else to be had. */
export function newKey(): GivenKey & { text: string } {
  const prefix = randomBytes(6).toString('hex')
  const secret = randomBytes(32).toString('base64url')
  return { text: `${shownPrefix(prefix)}_${secret}`, prefix, secretSha256: sha256(secret) }
}

/** Null for a text that is no key. */
export function readKey(text: string): GivenKey | null {
  const [, prefix, secret] = FORM.exec(text) ?? []
  return prefix === undefined || secret === undefined ? null : { prefix, secretSha256: sha256(secret) }
}

/** Whether `text` wants to be a key, well-formed or not. */
export function looksLikeKey(text: string): boolean {
  return text.startsWith('shk_')
}

/** What is shown of a key, and begins it. */
export function shownPrefix(prefix: string): string {
  return `shk_${prefix}`
}

/** In a time that tells nothing. `stored` null: a key that is not there, compared all the same. */
export function isSameSecret(given: GivenKey, stored: Buffer | null): boolean {
  return timingSafeEqual(given.secretSha256, stored ?? NOTHING) && stored !== null
}

const NOTHING = Buffer.alloc(32)

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
