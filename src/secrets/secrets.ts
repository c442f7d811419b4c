// Secrets at rest: envelope encryption as a JSON Web Encryption (RFC 7516, flattened), so that there is no format of our own.
// Every secret gets a data key of its own (A256GCM), wrapped by the key ring's current key, whose id the protected header names; see
// key.ts for the two kinds. What it belongs to is authenticated with it but not stored in it: a sealed text that is moved to another
// tenant, subscription or field does not open. Nothing is opened that `seal` could not have given, to the letter.
import { randomBytes } from 'node:crypto'
import { FlattenedEncrypt, flattenedDecrypt, type FlattenedJWE } from 'jose'
import { canonical, SecretError, type KeyEncryptionKey, type SealedHeader, type SecretContext } from './key.ts'
import type { KeyRing } from './keyring.ts'

export { SecretError, type SecretFault } from './key.ts'

/** The field of a subscription's signing secret: the same word where it is sealed and where it is opened. */
export const SIGNING_SECRET = 'signing_secret'

const SIGNING_SECRET_BYTES = 32
const SIGNING_SECRET_PREFIX = 'whsec_'

export interface SecretBox {
  /** Encrypts: the same secret seals to another text each time. Rejects with `SecretError`: `unavailable` alone. */
  seal(plaintext: Buffer | string, context: SecretContext): Promise<string>
  /** Decrypts what `seal` gave for the same context; else rejects with `SecretError`. */
  open(sealed: string, context: SecretContext): Promise<Buffer>
}

export function createSecretBox(ring: KeyRing): SecretBox {
  return {
    seal: (plaintext, context) => seal(ring, Buffer.from(plaintext), context),
    open: (sealed, context) => open(ring, sealed, context),
  }
}

/** A new signing secret: `text` is what its owner is shown once and what is sealed, `key` what signs. */
export function newSigningSecret(): { text: string; key: Buffer } {
  const key = randomBytes(SIGNING_SECRET_BYTES)
  return { text: `${SIGNING_SECRET_PREFIX}${key.toString('base64')}`, key }
}

/** The key of a signing secret's text. */
export function signingKey(text: string): Buffer {
  return Buffer.from(text.slice(SIGNING_SECRET_PREFIX.length), 'base64')
}

async function seal({ keys }: KeyRing, plaintext: Buffer, context: SecretContext): Promise<string> {
  const { header, key } = await keys[0]!.toSeal(context)
  const { aad: _, ...jwe } = await new FlattenedEncrypt(plaintext)
    .setProtectedHeader(header)
    .setAdditionalAuthenticatedData(authenticated(context))
    .encrypt(key)
  return JSON.stringify(jwe)
}

async function open(ring: KeyRing, sealed: string, context: SecretContext): Promise<Buffer> {
  const { jwe, header } = parseSealed(sealed)
  const kek = await keyOf(ring, header.kid)
  const key = await kek.toOpen(header, context)
  const aad = authenticated(context).toString('base64url')
  try {
    const opened = await flattenedDecrypt({ ...jwe, aad }, key, {
      keyManagementAlgorithms: [header.alg],
      contentEncryptionAlgorithms: [header.enc],
    })
    return Buffer.from(opened.plaintext)
  } catch {
    throw new SecretError('not_authentic', 'the sealed secret was altered or belongs to something else')
  }
}

/** A JSON array: no two contexts have the same bytes, whatever is in their names. */
function authenticated(context: SecretContext): Buffer {
  const { tenantId, subscriptionId, field } = canonical(context)
  return Buffer.from(JSON.stringify([tenantId, subscriptionId, field]))
}

async function keyOf({ keys }: KeyRing, kid: string): Promise<KeyEncryptionKey> {
  for (const key of keys) if (await key.is(kid)) return key
  throw new SecretError('unknown_key', 'the key-encryption key that sealed the secret is not in the key ring')
}

const MEMBERS = {
  A256GCMKW: {
    jwe: ['ciphertext', 'encrypted_key', 'iv', 'protected', 'tag'],
    header: ['alg', 'enc', 'iv', 'kid', 'tag'],
  },
  dir: { jwe: ['ciphertext', 'iv', 'protected', 'tag'], header: ['alg', 'enc', 'kid', 'wrapped_key'] },
}

function parseSealed(sealed: string): { jwe: FlattenedJWE; header: SealedHeader } {
  const jwe = parseStrings(sealed)
  const header = parseStrings(Buffer.from(jwe['protected'] ?? '', 'base64url').toString())
  const { alg, enc, kid: _kid, ...encoded } = header
  if ((alg !== 'A256GCMKW' && alg !== 'dir') || enc !== 'A256GCM') throw malformed()
  if (!hasExactly(jwe, MEMBERS[alg].jwe) || !hasExactly(header, MEMBERS[alg].header)) throw malformed()
  if (![...Object.values(jwe), ...Object.values(encoded)].every(isBase64url)) throw malformed()
  return { jwe: jwe as unknown as FlattenedJWE, header: header as unknown as SealedHeader }
}

/** An object of strings alone. */
function parseStrings(text: string): Record<string, string> {
  try {
    const found = JSON.parse(text) as unknown
    if (typeof found === 'object' && found !== null && Object.values(found).every((value) => typeof value === 'string'))
      return found as Record<string, string>
  } catch {
    // The parser's own message would quote what it read.
  }
  throw malformed()
}

function hasExactly(found: object, members: readonly string[]): boolean {
  return Object.keys(found).sort().join() === members.join()
}

/** As it is written, and in no other way: bits that are not looked at could be altered unseen. */
function isBase64url(text: string): boolean {
  return Buffer.from(text, 'base64url').toString('base64url') === text
}

function malformed(): SecretError {
  return new SecretError('malformed', 'the sealed secret is not a JWE as the hub writes them')
}
