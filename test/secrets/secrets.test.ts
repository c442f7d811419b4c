import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import { FlattenedEncrypt } from 'jose'
import { keyIds, parseKeyRing } from '../../src/secrets/keyring.ts'
import {
  SecretError,
  createSecretBox,
  newSigningSecret,
  signingKey,
  type SecretFault,
} from '../../src/secrets/secrets.ts'

const OLD_KEK = Buffer.alloc(32, 1).toString('base64')
const NEW_KEK = Buffer.alloc(32, 2).toString('base64')
const context = { tenantId: 'acme', subscriptionId: '0197-1', field: 'signing_secret' }
const box = createSecretBox(parseKeyRing(OLD_KEK))

describe('a sealed secret', () => {
  test('opens for its own context, whatever its bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const opened = await box.open(await box.seal(Buffer.from(bytes), context), context)
        assert.deepEqual(opened, Buffer.from(bytes))
      }),
    )
    assert.equal((await box.open(await box.seal('tøken', context), context)).toString(), 'tøken')
  })

  test('does not show the secret nor whose it is, and differs each time', async () => {
    const sealed = await box.seal('a very secret text', context)
    assert.doesNotMatch(sealed, /very secret/)
    assert.deepEqual(Object.keys(JSON.parse(sealed)).sort(), ['ciphertext', 'encrypted_key', 'iv', 'protected', 'tag'])
    assert.notEqual(await box.seal('a very secret text', context), sealed)
  })

  test('does not open for another tenant, subscription or field', async () => {
    const sealed = await box.seal('secret', context)
    for (const other of [{ tenantId: 'evil' }, { subscriptionId: '0197-2' }, { field: 'auth' }]) {
      await assert.rejects(box.open(sealed, { ...context, ...other }), isFault('not_authentic'))
    }
  })

  test('does not open when the parts of its context are merely split elsewhere', async () => {
    const sealed = await box.seal('secret', { tenantId: 'a","b', subscriptionId: 'c', field: 'd' })
    await assert.rejects(
      box.open(sealed, { tenantId: 'a', subscriptionId: 'b","c', field: 'd' }),
      isFault('not_authentic'),
    )
  })

  test('does not open with an `aad` of its own choosing', async () => {
    const sealed = JSON.parse(await box.seal('secret', context)) as object
    const aad = Buffer.from(JSON.stringify(Object.values(context))).toString('base64url')
    const other = { ...context, tenantId: 'evil' }
    await assert.rejects(box.open(JSON.stringify({ ...sealed, aad }), other), isFault('malformed'))
    await assert.rejects(box.open(JSON.stringify(sealed), other), isFault('not_authentic'))
  })

  for (const part of ['ciphertext', 'iv', 'tag', 'encrypted_key', 'protected']) {
    test(`does not open when a bit of its ${part} is flipped`, async () => {
      const jwe = JSON.parse(await box.seal('a secret', context)) as Record<string, string>
      const bytes = Buffer.from(jwe[part]!, 'base64url')
      for (let i = 0; i < bytes.length; i++) {
        const flipped = Buffer.from(bytes)
        flipped[i]! ^= 1
        const tampered = JSON.stringify({ ...jwe, [part]: flipped.toString('base64url') })
        await assert.rejects(box.open(tampered, context), SecretError)
      }
    })

    test(`does not open without its ${part}`, async () => {
      const jwe = JSON.parse(await box.seal('a secret', context)) as Record<string, string>
      await assert.rejects(box.open(JSON.stringify({ ...jwe, [part]: undefined }), context), SecretError)
    })
  }

  test('does not open under another algorithm, not even a valid one by the same key', async () => {
    const [kid] = await keyIds(parseKeyRing(OLD_KEK))
    assert.ok(kid)
    const aad = Buffer.from(JSON.stringify(Object.values(context)))
    for (const header of [
      { alg: 'A256KW', enc: 'A256GCM' },
      { alg: 'A256GCMKW', enc: 'A128GCM' },
      { alg: 'dir', enc: 'A256GCM' },
      { alg: 'PBES2-HS256+A128KW', enc: 'A256GCM' },
      { alg: 'A256GCMKW', enc: 'A256GCM', typ: 'secret' },
      { alg: 'A256GCMKW', enc: 'A256GCM', zip: 'DEF' },
    ]) {
      const jwe = await new FlattenedEncrypt(Buffer.from('a secret'))
        .setProtectedHeader({ ...header, kid })
        .setAdditionalAuthenticatedData(aad)
        .encrypt(Buffer.from(OLD_KEK, 'base64'))
      await assert.rejects(box.open(JSON.stringify({ ...jwe, aad: undefined }), context), isFault('malformed'))
    }
  })

  test('does not open when it is written in another way: other members, other digits, other white space in its base64', async () => {
    const jwe = JSON.parse(await box.seal('a secret', context)) as Record<string, string>
    for (const other of [
      { ...jwe, header: { kid: 'x' } },
      { ...jwe, unprotected: '' },
      { ...jwe, tag: `${jwe['tag']}=` },
      { ...jwe, tag: ` ${jwe['tag']}` },
      { ...jwe, iv: 7 },
      { ...jwe, ciphertext: [jwe['ciphertext']] },
      [jwe],
    ])
      await assert.rejects(box.open(JSON.stringify(other), context), isFault('malformed'))
  })

  test('of whatever kind, comes to a SecretError or to what was sealed, never to anything else', async (t) => {
    const sealed = await box.seal('a secret', context)
    const jwe = JSON.parse(sealed) as Record<string, string>
    const header = JSON.parse(Buffer.from(jwe['protected']!, 'base64url').toString()) as Record<string, unknown>
    const value = fc.oneof(
      fc.string(),
      fc.jsonValue(),
      fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64url')),
    )
    const parts = fc.dictionary(
      fc.constantFrom(...Object.keys(jwe), 'aad', 'header', 'unprotected', '__proto__'),
      value,
    )
    const otherKey = fc.string().map((kid) => ({ kid }))
    const headers = fc.oneof(
      otherKey,
      fc.dictionary(
        fc.constantFrom(...Object.keys(header), 'zip', 'crit', 'p2c', 'epk', 'wrapped_key', '__proto__'),
        fc.oneof(value, fc.constantFrom('dir', 'A256KW', 'ECDH-ES', 'RSA1_5', 'none', 'A128GCM')),
      ),
    )
    const withHeader = headers.map((changed) =>
      JSON.stringify({
        ...jwe,
        protected: Buffer.from(JSON.stringify({ ...header, ...changed })).toString('base64url'),
      }),
    )
    const cut = fc
      .tuple(fc.nat(sealed.length), fc.nat(20), fc.string())
      .map(([at, length, text]) => sealed.slice(0, at) + text + sealed.slice(at + length))
    const texts = fc.oneof(
      fc.string(),
      fc.json(),
      cut,
      withHeader,
      parts.map((changed) => JSON.stringify({ ...jwe, ...changed })),
    )
    const faults = new Map<string, number>()
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        const end = await box.open(text, context).then(
          (opened) => {
            // What was changed is nothing to it.
            assert.equal(opened.toString(), 'a secret')
            return 'opened'
          },
          (error: unknown) => {
            assert.ok(error instanceof SecretError, String(error))
            return error.fault
          },
        )
        faults.set(end, (faults.get(end) ?? 0) + 1)
      }),
      { numRuns: 3_000 },
    )
    for (const fault of ['malformed', 'unknown_key', 'not_authentic']) assert.ok(faults.has(fault), fault)
    t.diagnostic(JSON.stringify(Object.fromEntries(faults)))
  })

  test('that is no JWE at all is malformed, and not repeated in the error', async () => {
    for (const sealed of ['', 'plain-secret', '"plain-secret"', 'null', '7', '{"ciphertext":']) {
      await assert.rejects(box.open(sealed, context), (error) => {
        assert.ok(error instanceof SecretError && error.fault === 'malformed')
        return !error.message.includes('plain-secret') && error.cause === undefined
      })
    }
  })
})

describe('rotating the key-encryption key', () => {
  const rotated = createSecretBox(parseKeyRing(`${NEW_KEK},${OLD_KEK}`))
  const retired = createSecretBox(parseKeyRing(NEW_KEK))

  test('what the old key sealed still opens while it is in the ring', async () => {
    assert.equal((await rotated.open(await box.seal('secret', context), context)).toString(), 'secret')
  })

  test('the new key seals: it opens without the old one', async () => {
    assert.equal((await retired.open(await rotated.seal('secret', context), context)).toString(), 'secret')
  })

  test('once the old key is gone, what it sealed says which kind of fault that is', async () => {
    await assert.rejects(retired.open(await box.seal('secret', context), context), isFault('unknown_key'))
  })
})

test('a new signing secret is 32 random bytes, shown as whsec_ and their base64', () => {
  const { text, key } = newSigningSecret()
  assert.equal(key.length, 32)
  assert.equal(text, `whsec_${key.toString('base64')}`)
  assert.deepEqual(signingKey(text), key)
  assert.notDeepEqual(newSigningSecret().key, key)
})

function isFault(fault: SecretFault): (error: unknown) => boolean {
  return (error) => error instanceof SecretError && error.fault === fault
}
