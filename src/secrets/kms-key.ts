// A key-encryption key in AWS KMS, which never leaves it. Every secret's data key is made and wrapped there, bound to what the secret
// belongs to by the encryption context, and unwrapped there again. Opened data keys are kept in memory, bounded and for a limited
// time, so that deliveries do not ask KMS each time, and go on through a short outage of it.
import { createHash } from 'node:crypto'
import type { KMSClient } from '@aws-sdk/client-kms'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.ts'
import { canonical, SecretError, type KeyEncryptionKey, type SealedHeader, type SecretContext } from './key.ts'

/** A key, or an alias of one, and where it is. */
export interface KmsKeyName {
  /** An ARN, a key id, or `alias/…`. */
  ref: string
  region: string
}

const DATA_KEY_BYTES = 32
/** A data key is 32 bytes: 50,000 of them with what the cache needs are some 15 MB. */
const MAX_DATA_KEYS = 50_000
/** How long KMS may be away before what is in use has to wait, and a disabled key may go on. */
const DATA_KEY_TTL_MS = 3_600_000
/** An alias can be pointed at another key. */
const ALIAS_TTL_MS = 5 * 60_000
/** All tries of one call together: well within what a delivery's lease has beyond its attempt (15 s). */
const CALL_MS = 8_000
const CONNECT_MS = 2_000
const ANSWER_MS = 3_000
const TRIES = 3
/** After a call that came to nothing KMS is left in peace for so long: who asks meanwhile is told the same. */
const PEACE_MS = 2_000

/** Nothing is asked, nor the SDK loaded, before the key is used. */
export function kmsKey(name: KmsKeyName, { clock }: { clock: Clock }): KeyEncryptionKey {
  const kms = new Kms(name, clock)
  return {
    id: () => kms.arn(),
    is: async (kid) => kid.startsWith('arn:') && kid === (await kms.arn()),
    toSeal: (context) => kms.newDataKey(context),
    toOpen: (header, context) => kms.dataKey(header, context),
  }
}

class Kms {
  readonly #name: KmsKeyName
  readonly #clock: Clock
  readonly #dataKeys: LRUCache<string, Promise<Buffer>>
  #client: Promise<KMSClient> | null = null
  #known: { arn: string; until: number } | null = null
  #refused: { until: number; error: SecretError } | null = null

  constructor(name: KmsKeyName, clock: Clock) {
    this.#name = name
    this.#clock = clock
    this.#dataKeys = new LRUCache({ max: MAX_DATA_KEYS, ttl: DATA_KEY_TTL_MS, ttlResolution: 0, perf: clock })
    if (/^arn:[^:]+:kms:[^:]+:[^:]*:key\/./.test(name.ref)) this.#known = { arn: name.ref, until: Infinity }
  }

  async arn(): Promise<string> {
    if (this.#known !== null && this.#clock.now() < this.#known.until) return this.#known.arn
    const { DescribeKeyCommand } = await import('@aws-sdk/client-kms')
    const found = await this.#call('name its key', (client, options) =>
      client.send(new DescribeKeyCommand({ KeyId: this.#name.ref }), options),
    )
    const arn = found.KeyMetadata?.Arn
    if (arn === undefined) throw new SecretError('unavailable', `KMS did not name the key of ${this.#name.ref}`)
    this.#known = { arn, until: this.#clock.now() + ALIAS_TTL_MS }
    return arn
  }

  async newDataKey(context: SecretContext): Promise<{ header: SealedHeader; key: Buffer }> {
    const kid = await this.arn()
    const { GenerateDataKeyCommand } = await import('@aws-sdk/client-kms')
    const request = { KeyId: kid, KeySpec: 'AES_256' as const, EncryptionContext: encryptionContext(context) }
    const made = await this.#call('make a data key', (client, options) =>
      client.send(new GenerateDataKeyCommand(request), options),
    )
    const { CiphertextBlob: wrapped, Plaintext: plain } = made
    if (!wrapped || plain?.length !== DATA_KEY_BYTES)
      throw new SecretError('unavailable', 'KMS answered without a data key')
    const header = { alg: 'dir', enc: 'A256GCM', kid, wrapped_key: Buffer.from(wrapped).toString('base64url') } as const
    const key = Buffer.from(plain)
    this.#dataKeys.set(cacheKey(header, context), Promise.resolve(key))
    return { header, key }
  }

  async dataKey(header: SealedHeader, context: SecretContext): Promise<Buffer> {
    if (header.alg !== 'dir') throw new SecretError('malformed', 'the sealed secret is not of the kind of its key')
    const name = cacheKey(header, context)
    const kept = this.#dataKeys.get(name)
    if (kept) return await kept
    // Whoever asks for it meanwhile waits for the same answer.
    const unwrapped = this.#unwrap(header, context)
    this.#dataKeys.set(name, unwrapped)
    unwrapped.catch(() => this.#dataKeys.delete(name))
    return await unwrapped
  }

  async #unwrap({ kid, wrapped_key }: SealedHeader & { alg: 'dir' }, context: SecretContext): Promise<Buffer> {
    const { DecryptCommand } = await import('@aws-sdk/client-kms')
    const request = {
      KeyId: kid,
      CiphertextBlob: Buffer.from(wrapped_key, 'base64url'),
      EncryptionContext: encryptionContext(context),
    }
    const { Plaintext: plain } = await this.#call('open a data key', (client, options) =>
      client.send(new DecryptCommand(request), options),
    )
    if (plain?.length !== DATA_KEY_BYTES) throw new SecretError('not_authentic', 'what KMS opened is no data key')
    return Buffer.from(plain)
  }

  async #call<T>(
    what: string,
    send: (client: KMSClient, options: { abortSignal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const refused = this.#refused
    if (refused !== null && this.#clock.now() < refused.until) throw refused.error
    const abortSignal = AbortSignal.timeout(CALL_MS)
    try {
      const client = await (this.#client ??= openClient(this.#name.region))
      const answer = await send(client, { abortSignal })
      this.#refused = null
      return answer
    } catch (cause) {
      const { name, isOfTheSecret } = faultOf(cause, abortSignal.aborted)
      // The cause's own message could quote the request.
      const error = isOfTheSecret
        ? new SecretError('not_authentic', 'KMS says that the sealed secret was altered or belongs to something else')
        : new SecretError('unavailable', `KMS did not ${what} with ${this.#name.ref}: ${name}`)
      if (!isOfTheSecret) this.#refused = { until: this.#clock.now() + PEACE_MS, error }
      throw error
    }
  }
}

/** Credentials, and an endpoint of one's own, come as the SDK finds them: `AWS_…` variables, a role, a profile. */
async function openClient(region: string): Promise<KMSClient> {
  const { KMSClient } = await import('@aws-sdk/client-kms')
  return new KMSClient({
    region,
    maxAttempts: TRIES,
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
  })
}

/** What KMS binds the data key to, and writes into its own audit trail: names, no secret. */
function encryptionContext(context: SecretContext): Record<string, string> {
  const { tenantId, subscriptionId, field } = canonical(context)
  return { tenant_id: tenantId, subscription_id: subscriptionId, field }
}

const OF_THE_SECRET = new Set(['InvalidCiphertextException', 'IncorrectKeyException'])

function faultOf(cause: unknown, isOver: boolean): { name: string; isOfTheSecret: boolean } {
  if (isOver) return { name: `no answer within ${CALL_MS / 1000} s`, isOfTheSecret: false }
  const { name, code } = cause instanceof Error ? (cause as Error & { code?: unknown }) : { name: 'Error', code: null }
  return { name: typeof code === 'string' ? code : name, isOfTheSecret: OF_THE_SECRET.has(name) }
}

function cacheKey({ kid, wrapped_key }: SealedHeader & { alg: 'dir' }, context: SecretContext): string {
  const { tenantId, subscriptionId, field } = canonical(context)
  const all = JSON.stringify([kid, wrapped_key, tenantId, subscriptionId, field])
  return createHash('sha256').update(all).digest('base64')
}
