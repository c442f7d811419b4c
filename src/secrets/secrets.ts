// Secrets at rest: envelope encryption as a JSON Web Encryption (RFC 7516, flattened), so that there is no format of our own.
// Every secret gets a data key of its own (A256GCM), wrapped by the key ring's current key (A256GCMKW) whose id the protected
// header names. What it belongs to is authenticated with it but not stored in it: a sealed text that is moved to another
// tenant, subscription or field does not open.
import { randomBytes } from 'node:crypto'
import { FlattenedEncrypt, flattenedDecrypt, type FlattenedJWE, type JWEHeaderParameters } from 'jose'
import type { KeyRing } from './keyring.ts'

/** The field of a subscription's signing secret: the same word where it is sealed and where it is opened. */
export const SIGNING_SECRET = 'signing_secret'

const SIGNING_SECRET_BYTES = 32
const SIGNING_SECRET_PREFIX = 'whsec_'

/** What a secret belongs to. */
interface SecretContext {
  tenantId: string
  subscriptionId: string
  /** Which of the subscription's secrets: `signing_secret`, say. */
  field: string
}

export interface SecretBox {
  /** Encrypts: the same secret seals to another text each time. */
  seal(plaintext: Buffer | string, context: SecretContext): Promise<string>
  /** Decrypts what `seal` gave for the same context; else rejects with `SecretError`. */
  open(sealed: string, context: SecretContext): Promise<Buffer>
}

export type SecretFault =
  | 'malformed' // it is no text that `seal` could have given
  | 'unknown_key' // the key that sealed it is not in the ring
  | 'not_authentic' // it was altered, or belongs to another context

/** A sealed secret does not open. Neither message nor cause holds any part of the secret or a key. */
export class SecretError extends Error {
  override readonly name = 'SecretError'
  readonly fault: SecretFault

  constructor(fault: SecretFault, message: string) {
    super(message)
    this.fault = fault
  }
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

async function seal(ring: KeyRing, plaintext: Buffer, context: SecretContext): Promise<string> {
  const { aad: _, ...jwe } = await new FlattenedEncrypt(plaintext)
    .setProtectedHeader({ alg: 'A256GCMKW', enc: 'A256GCM', kid: ring.currentId })
    .setAdditionalAuthenticatedData(authenticated(context))
    .encrypt(currentKey(ring))
  return JSON.stringify(jwe)
}

async function open(ring: KeyRing, sealed: string, context: SecretContext): Promise<Buffer> {
  const jwe = { ...parseSealed(sealed), aad: authenticated(context).toString('base64url') }
  try {
    const opened = await flattenedDecrypt(jwe, (header) => keyOf(ring, header), {
      keyManagementAlgorithms: ['A256GCMKW'],
      contentEncryptionAlgorithms: ['A256GCM'],
    })
    return Buffer.from(opened.plaintext)
  } catch (error) {
    if (error instanceof SecretError) throw error
    throw new SecretError('not_authentic', 'the sealed secret was altered or belongs to something else')
  }
}

/** A JSON array: no two contexts have the same bytes, whatever is in their names. */
function authenticated({ tenantId, subscriptionId, field }: SecretContext): Buffer {
  return Buffer.from(JSON.stringify([tenantId, subscriptionId, field]))
}

function parseSealed(sealed: string): FlattenedJWE {
  try {
    const jwe = JSON.parse(sealed) as FlattenedJWE | null
    if (typeof jwe === 'object' && jwe !== null) return jwe
  } catch {
    // The parser's own message would quote what it read.
  }
  throw new SecretError('malformed', 'the sealed secret is not a JWE')
}

function currentKey(ring: KeyRing): Buffer {
  return keyOf(ring, { kid: ring.currentId })
}

function keyOf(ring: KeyRing, header: JWEHeaderParameters | undefined): Buffer {
  const key = ring.keys.get(header?.kid ?? '')
  if (!key) throw new SecretError('unknown_key', 'the key-encryption key that sealed the secret is not in the key ring')
  return key
}
