// The key-encryption keys (KEKs) that wrap every stored secret's own data key. They come from outside the database: as text (one or
// more base64 keys, separated by commas or white space), or from a key service, which never gives them out. The first one seals, all
// of them open: docs/secrets.md says how a key is replaced by another. A key that is given as text is known by a hash of itself, so
// there are no ids to configure, to mix up or to lose; one of a key service has its id there.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Clock } from '../base/clock.ts'
import { SecretError, type KeyEncryptionKey } from './key.ts'
import { kmsKey, type KmsKeyName } from './kms-key.ts'

const KEY_BYTES = 32

export type KekSource =
  /** `value`: what the environment variable holds. */
  { kind: 'env'; value: string } | { kind: 'file'; path: string } | { kind: 'aws-kms'; keys: readonly KmsKeyName[] }

export interface KeyRing {
  /** The first one seals, all of them open. There is at least one. */
  keys: readonly KeyEncryptionKey[]
}

/** The keys cannot be had as they are configured. The message says why and holds no part of a key. */
export class KeyRingError extends Error {
  override readonly name = 'KeyRingError'
}

/**
 * Reads the keys of all sources, the first one's first; rejects with `KeyRingError` when there is none, or one of them is unusable. A key
 * service is not asked before it is needed.
 */
export async function openKeyRing(sources: readonly KekSource[], deps: { clock: Clock }): Promise<KeyRing> {
  return { keys: (await Promise.all(sources.map((source) => keysOf(source, deps)))).flat() }
}

/**
 * The key ring of a text. Each key is at least 32 bytes in base64 (standard or URL alphabet): exactly 32 are the key itself;
 * of more, the key is their SHA-256, so that no byte is ignored. Throws `KeyRingError`.
 */
export function parseKeyRing(text: string): KeyRing {
  const found = text.split(/[\s,]+/).filter((part) => part !== '')
  const byId = new Map(found.map((part, i) => parseKey(part, i + 1)).map((key) => [localId(key), key]))
  if (byId.size === 0) throw new KeyRingError('there is no key-encryption key')
  return { keys: [...byId].map(([id, key]) => localKey(id, key)) }
}

/** The ids of a ring's keys, the sealing one first. Rejects with `unavailable`. */
export async function keyIds({ keys }: KeyRing): Promise<string[]> {
  return await Promise.all(keys.map((key) => key.id()))
}

async function keysOf(source: KekSource, deps: { clock: Clock }): Promise<readonly KeyEncryptionKey[]> {
  switch (source.kind) {
    case 'env':
      return parseKeyRing(source.value).keys
    case 'file':
      return parseKeyRing(await readKeyFile(source.path)).keys
    case 'aws-kms':
      return source.keys.map((name) => kmsKey(name, deps))
    default:
      return source satisfies never
  }
}

async function readKeyFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new KeyRingError(`the file of key-encryption keys cannot be read: ${path}`, { cause })
  }
}

function parseKey(text: string, position: number): Buffer {
  // One digit of base64 beyond whole bytes means that a part was lost.
  const isBase64 = /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) && text.replace(/=+$/, '').length % 4 !== 1
  if (!isBase64) throw new KeyRingError(`key-encryption key ${position} is not base64`)
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length < KEY_BYTES) {
    throw new KeyRingError(`key-encryption key ${position} has ${bytes.length} bytes, at least ${KEY_BYTES} are needed`)
  }
  return bytes.length === KEY_BYTES ? bytes : createHash('sha256').update(bytes).digest()
}

function localId(key: Buffer): string {
  return createHash('sha256').update('streaming-hub kek id').update(key).digest('hex').slice(0, 16)
}

function localKey(id: string, key: Buffer): KeyEncryptionKey {
  return {
    id: async () => id,
    is: async (kid) => kid === id,
    toSeal: async () => ({ header: { alg: 'A256GCMKW', enc: 'A256GCM', kid: id }, key }),
    toOpen: async ({ alg }) => {
      if (alg !== 'A256GCMKW') throw new SecretError('malformed', 'the sealed secret is not of the kind of its key')
      return key
    },
  }
}
