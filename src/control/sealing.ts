// Sealing may ask a key service, and no transaction should wait for that: what a change will store is sealed before it begins.
import { randomUUIDv7 } from 'node:crypto'
import { HubError } from '../base/errors.ts'
import { SIGNING_SECRET, SecretError, newSigningSecret, type SecretBox } from '../secrets/secrets.ts'
import type { NewSecret } from './sink-secrets.ts'

export type Sealing = Pick<SecretBox, 'seal'>

interface Owner {
  tenantId: string
  subscriptionId: string
}

/** A signing secret that was made for a subscription. `text` is nowhere else to be had in the clear. */
export interface IssuedSecret {
  subscriptionId: string
  text: string
  sealed: string
}

/** A new signing secret, for a subscription that is still to be made unless one is named. Throws `unavailable`. */
export async function issueSigningSecret(
  { tenantId, subscriptionId = randomUUIDv7() }: { tenantId: string; subscriptionId?: string },
  secrets: Sealing,
): Promise<IssuedSecret> {
  const { text } = newSigningSecret()
  const sealed = await seal(secrets, { text, owner: { tenantId, subscriptionId }, field: SIGNING_SECRET })
  return { subscriptionId, text, sealed }
}

/**
 * Seals what is expected to be stored, and answers what seals within the transaction: from what is sealed already, and only what was
 * not expected anew. Throws `unavailable`.
 */
export async function sealAhead(owner: Owner, expected: readonly NewSecret[], secrets: Sealing): Promise<Sealing> {
  const ready = new Map<string, string>()
  await Promise.all(
    expected.map(async ({ field, text }) => ready.set(key(field, text), await seal(secrets, { text, owner, field }))),
  )
  return {
    seal: async (plaintext, { field }) => {
      const text = plaintext.toString()
      return ready.get(key(field, text)) ?? (await seal(secrets, { text, owner, field }))
    },
  }
}

function key(field: string, text: string): string {
  return JSON.stringify([field, text])
}

async function seal(secrets: Sealing, { text, owner, field }: NewSecret & { owner: Owner }): Promise<string> {
  try {
    return await secrets.seal(text, { ...owner, field })
  } catch (cause) {
    if (!(cause instanceof SecretError)) throw cause
    throw new HubError('unavailable', 'The key that encrypts secrets cannot be used at the moment.', { cause })
  }
}
