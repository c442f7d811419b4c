// The key-encryption keys (KEKs) that wrap every stored secret's own data key. They come from outside the database, as text:
// one or more base64 keys, separated by commas or white space. The first one seals, all of them open: to rotate, put the new
// key first and leave the old one in place until everything has been sealed anew. A key is known by a hash of itself, so there
// are no ids to configure, to mix up or to lose.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'

const KEY_BYTES = 32

export type KekSource =
  /** `value`: what the environment variable holds. */
  { kind: 'env'; value: string } | { kind: 'file'; path: string } | { kind: 'aws-kms'; ref: string }

export interface KeyRing {
  /** The id of the key that seals. */
  currentId: string
  /** By id, each of 32 bytes; the current one among them. */
  keys: ReadonlyMap<string, Buffer>
}

/** The keys cannot be had as they are configured. The message says why and holds no part of a key. */
export class KeyRingError extends Error {
  override readonly name = 'KeyRingError'
}

/** Reads the keys; rejects with `KeyRingError` when there is none, or one of them is unusable. */
export async function openKeyRing(source: KekSource): Promise<KeyRing> {
  switch (source.kind) {
    case 'env':
      return parseKeyRing(source.value)
    case 'file':
      return parseKeyRing(await readKeyFile(source.path))
    case 'aws-kms':
      throw new KeyRingError('the KEK source aws-kms is not supported yet: use env or file')
    default:
      return source satisfies never
  }
}

/**
 * The key ring of a text. Each key is at least 32 bytes in base64 (standard or URL alphabet): exactly 32 are the key itself;
 * of more, the key is their SHA-256, so that no byte is ignored. Throws `KeyRingError`.
 */
export function parseKeyRing(text: string): KeyRing {
  const ring = text
    .split(/[\s,]+/)
    .filter((part) => part !== '')
    .map((part, i) => parseKey(part, i + 1))
  const current = ring[0]
  if (!current) throw new KeyRingError('there is no key-encryption key')
  return { currentId: keyId(current), keys: new Map(ring.map((key) => [keyId(key), key])) }
}

async function readKeyFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new KeyRingError(`the file of key-encryption keys cannot be read: ${path}`, { cause })
  }
}

function parseKey(text: string, position: number): Buffer {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(text)) throw new KeyRingError(`key-encryption key ${position} is not base64`)
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length < KEY_BYTES) {
    throw new KeyRingError(`key-encryption key ${position} has ${bytes.length} bytes, at least ${KEY_BYTES} are needed`)
  }
  return bytes.length === KEY_BYTES ? bytes : createHash('sha256').update(bytes).digest()
}

function keyId(key: Buffer): string {
  return createHash('sha256').update('streaming-hub kek id').update(key).digest('hex').slice(0, 16)
}
