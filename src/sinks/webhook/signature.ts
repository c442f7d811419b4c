// The two signatures of every request, by the same keys: the platform's own (`x-lerian-signature`) and Standard Webhooks 1.0.
// While a rotation's overlap lasts each of them carries one signature per key, the newest first.
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { SigningKey } from '../sink.ts'

/** The headers that sign `body` at `now` (epoch ms), or null when no key signs at that time. An expired key signs no more. */
export function signatureHeaders(message: {
  id: string
  now: number
  body: Buffer
  keys: readonly SigningKey[]
}): Record<string, string> | null {
  const { id, body } = message
  const seconds = String(Math.floor(message.now / 1000))
  const keys = message.keys.filter(({ expiresAt }) => expiresAt === null || message.now < expiresAt)
  if (keys.length === 0) return null
  // A KeyObject makes each HMAC several times faster than the same bytes in a Buffer, and costs less than one to make.
  const secrets = keys.map(({ key }) => createSecretKey(key))
  const own = secrets.map((secret) => `v1=${hmac(secret, `${seconds}.`, body).toString('hex')}`)
  const standard = secrets.map((secret) => `v1,${hmac(secret, `${id}.${seconds}.`, body).toString('base64')}`)
  return {
    'x-lerian-signature': `t=${seconds},${own.join(',')}`,
    'webhook-id': id,
    'webhook-timestamp': seconds,
    'webhook-signature': standard.join(' '),
  }
}

function hmac(secret: KeyObject, prefix: string, body: Buffer): Buffer {
  return createHmac('sha256', secret).update(prefix).update(body).digest()
}
