// AWS KMS as far as the hub uses it: an endpoint on loopback with keys of its own, that fails as a test says. It binds a data key to
// the encryption context as KMS does, and says which calls it was asked for.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface FakeKms extends AsyncDisposable {
  url: string
  /** The environment of a hub that uses it. */
  env: Record<string, string>
  /** Makes a key, and answers its ARN. */
  createKey(): string
  /** `alias/…` → ARN. */
  aliases: Map<string, string>
  disabled: Set<string>
  /** The actions that were asked for, in their order, with what they were asked. */
  asked: { action: string; context: Record<string, string> | undefined; keyId: string | undefined }[]
  /** Answers the next `times` calls in this way, whatever they ask. */
  fail(fault: KmsFault, times?: number): void
}

export type KmsFault = 'throttle' | 'internal' | 'denied' | 'hang' | 'reset' | 'garbage' | 'wrong_key_size'

interface Asked {
  KeyId?: string
  CiphertextBlob?: string
  EncryptionContext?: Record<string, string>
}

const REGION = 'eu-test-1'

export async function fakeKms(): Promise<FakeKms> {
  const keys = new Map<string, Buffer>()
  let failing: { fault: KmsFault; times: number } | null = null
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const action = String(request.headers['x-amz-target']).split('.')[1] ?? ''
    const asked = JSON.parse(await text(request)) as Asked
    kms.asked.push({ action, context: asked.EncryptionContext, keyId: asked.KeyId })
    if (failing !== null && failing.times-- > 0) misbehave(response, failing.fault)
    else answer(response, action, asked)
  }
  const server = createServer((request, response) => void serve(request, response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const kms: FakeKms = {
    url,
    env: {
      AWS_REGION: REGION,
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'PLANTED-aws-secret-access-key',
      AWS_ENDPOINT_URL_KMS: url,
    },
    createKey: () => {
      const arn = `arn:aws:kms:${REGION}:111122223333:key/${randomBytes(16).toString('hex')}`
      keys.set(arn, randomBytes(32))
      return arn
    },
    aliases: new Map(),
    disabled: new Set(),
    asked: [],
    fail: (fault, times = Infinity) => void (failing = { fault, times }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return kms

  function answer(response: ServerResponse, action: string, asked: Asked): void {
    const named = asked.KeyId ?? ''
    const arn =
      kms.aliases.get(named) ?? [...keys.keys()].find((known) => known === named || known.endsWith(`/${named}`))
    const key = keys.get(arn ?? '')
    if (arn === undefined || !key) return refuse(response, 'NotFoundException')
    if (action === 'DescribeKey') return send(response, { KeyMetadata: { KeyId: arn.split('/')[1], Arn: arn } })
    if (kms.disabled.has(arn)) return refuse(response, 'DisabledException')
    const context = contextOf(asked)
    if (action === 'GenerateDataKey') {
      const plain = randomBytes(32)
      const blob = wrap(key, plain, context)
      return send(response, {
        KeyId: arn,
        Plaintext: plain.toString('base64'),
        CiphertextBlob: blob.toString('base64'),
      })
    }
    try {
      const plain = unwrap(key, Buffer.from(asked.CiphertextBlob ?? '', 'base64'), context)
      send(response, { KeyId: arn, Plaintext: plain.toString('base64') })
    } catch {
      refuse(response, 'InvalidCiphertextException')
    }
  }
}

function misbehave(response: ServerResponse, fault: KmsFault): void {
  if (fault === 'throttle') refuse(response, 'ThrottlingException')
  if (fault === 'internal') refuse(response, 'KMSInternalException', 500)
  if (fault === 'denied') refuse(response, 'AccessDeniedException')
  if (fault === 'reset') response.destroy()
  if (fault === 'garbage') response.end('<html>')
  if (fault === 'wrong_key_size') send(response, { KeyId: 'x', Plaintext: 'AAAA', CiphertextBlob: 'AAAA' })
}

function send(response: ServerResponse, body: object, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify(body))
}

function refuse(response: ServerResponse, type: string, status = 400): void {
  send(response, { __type: type, message: 'PLANTED-message-of-kms' }, status)
}

function contextOf({ EncryptionContext = {} }: Asked): Buffer {
  return Buffer.from(JSON.stringify(Object.entries(EncryptionContext).sort(([a], [b]) => (a < b ? -1 : 1))))
}

function wrap(key: Buffer, plain: Buffer, context: Buffer): Buffer {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(context)
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

function unwrap(key: Buffer, blob: Buffer, context: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, blob.subarray(0, 12), { authTagLength: 16 })
  decipher.setAAD(context).setAuthTag(blob.subarray(-16))
  return Buffer.concat([decipher.update(blob.subarray(12, -16)), decipher.final()])
}
