// A key-encryption key (KEK), wherever it is kept, as what seals and opens secrets sees it; and what can be wrong with a secret.

/** What a secret belongs to. */
export interface SecretContext {
  tenantId: string
  subscriptionId: string
  /** Which of the subscription's secrets: `signing_secret`, say. */
  field: string
}

/** The protected header of a sealed secret; `kid` is the id of the key-encryption key. */
export type SealedHeader =
  /** The key itself is here: it wraps the data key, which stands beside the ciphertext. */
  | { alg: 'A256GCMKW'; enc: 'A256GCM'; kid: string }
  /** The key is in a key service, and so the data key was wrapped there: `wrapped_key`, in base64url. */
  | { alg: 'dir'; enc: 'A256GCM'; kid: string; wrapped_key: string }

export interface KeyEncryptionKey {
  /** Never changes. Rejects with `unavailable` where a key service has to be asked, and cannot be. */
  id(): Promise<string>
  /** Whether it is the key of that id. Rejects as `id` does, if it has to ask. */
  is(kid: string): Promise<boolean>
  /** What a new secret of `context` is sealed with: the header, and the key that goes with its `alg`. */
  toSeal(context: SecretContext): Promise<{ header: SealedHeader; key: Buffer }>
  /** The key that opens what has this header, which is one of this key. */
  toOpen(header: SealedHeader, context: SecretContext): Promise<Buffer>
}

export type SecretFault =
  | 'malformed' // it is no text that `seal` could have given
  | 'unknown_key' // the key that sealed it is not in the ring
  | 'not_authentic' // it was altered, or belongs to another context
  | 'unavailable' // the key service cannot be asked, or refuses: the same can work later

/** A sealed secret does not open, or a new one cannot be sealed. Neither message nor cause holds any part of a secret or a key. */
export class SecretError extends Error {
  override readonly name = 'SecretError'
  readonly fault: SecretFault

  constructor(fault: SecretFault, message: string) {
    super(message)
    this.fault = fault
  }
}

/** As in what it belongs to: the id is one in any letter case, as a caller may have written it. */
export function canonical({ tenantId, subscriptionId, field }: SecretContext): SecretContext {
  return { tenantId, subscriptionId: subscriptionId.toLowerCase(), field }
}
