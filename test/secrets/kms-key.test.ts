import { after, before, beforeEach, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { openKeyRing } from '../../src/secrets/keyring.ts'
import { SecretError, createSecretBox, type SecretBox, type SecretFault } from '../../src/secrets/secrets.ts'
import { manualClock } from '../support/clock.ts'
import { fakeKms, type FakeKms, type KmsFault } from '../support/fake-kms.ts'

const context = { tenantId: 'acme', subscriptionId: '0197-1', field: 'signing_secret' }
const clock = manualClock()
let kms: FakeKms
let arn: string

before(async () => {
  kms = await fakeKms()
  // Where the SDK looks for its endpoint and credentials.
  Object.assign(process.env, kms.env)
})
after(() => kms[Symbol.asyncDispose]())
beforeEach(() => {
  kms.asked.length = 0
  kms.fail('throttle', 0)
  arn = kms.createKey()
})

async function boxOf(...refs: string[]): Promise<SecretBox> {
  const keys = refs.map((ref) => ({ ref, region: 'eu-test-1' }))
  return createSecretBox(await openKeyRing([{ kind: 'aws-kms', keys }], { clock }))
}

const actions = (): string[] => kms.asked.map(({ action }) => action)

describe('a key in KMS', () => {
  test('seals with a data key that KMS made, bound to what the secret belongs to, and opens on any replica', async () => {
    const sealed = await (await boxOf(arn)).seal('a secret', context)
    assert.deepEqual(kms.asked, [
      {
        action: 'GenerateDataKey',
        keyId: arn,
        context: { tenant_id: 'acme', subscription_id: '0197-1', field: 'signing_secret' },
      },
    ])
    const { protected: header, ...rest } = JSON.parse(sealed) as Record<string, string>
    const { wrapped_key, ...named } = JSON.parse(Buffer.from(header!, 'base64url').toString()) as Record<string, string>
    assert.deepEqual(named, { alg: 'dir', enc: 'A256GCM', kid: arn })
    assert.ok(wrapped_key)
    assert.deepEqual(Object.keys(rest).sort(), ['ciphertext', 'iv', 'tag'])
    assert.equal((await (await boxOf(arn)).open(sealed, context)).toString(), 'a secret')
  })

  test('is not asked again for what was opened within the hour, and is after it', async () => {
    const box = await boxOf(arn)
    const sealed = await box.seal('a secret', context)
    for (let nth = 0; nth < 3; nth++) await box.open(sealed, context)
    assert.deepEqual(actions(), ['GenerateDataKey'])
    clock.advance(3_600_000 + 1)
    await Promise.all([box.open(sealed, context), box.open(sealed, context), box.open(sealed, context)])
    assert.deepEqual(actions(), ['GenerateDataKey', 'Decrypt'], 'three at one time are one call')
    clock.advance(3_600_000 - 1)
    await box.open(sealed, context)
    assert.equal(kms.asked.length, 2)
  })

  test('opens for nothing else: KMS itself refuses another context, and the cache is no way around it', async () => {
    const box = await boxOf(arn)
    const sealed = await box.seal('a secret', context)
    for (const other of [{ tenantId: 'evil' }, { subscriptionId: '0197-2' }, { field: 'auth' }])
      await assert.rejects(box.open(sealed, { ...context, ...other }), isFault('not_authentic'))
    assert.equal((await box.open(sealed, { ...context, subscriptionId: '0197-1' })).toString(), 'a secret')
  })

  test('does not open what was tampered with, in any part', async () => {
    const jwe = JSON.parse(await (await boxOf(arn)).seal('a secret', context)) as Record<string, string>
    const box = await boxOf(arn)
    for (const part of Object.keys(jwe)) {
      const bytes = Buffer.from(jwe[part]!, 'base64url')
      bytes[bytes.length - 3]! ^= 1
      await assert.rejects(
        box.open(JSON.stringify({ ...jwe, [part]: bytes.toString('base64url') }), context),
        SecretError,
      )
    }
    const header = JSON.parse(Buffer.from(jwe['protected']!, 'base64url').toString()) as Record<string, string>
    const other = Buffer.from(JSON.stringify({ ...header, wrapped_key: 'AAAA' })).toString('base64url')
    await assert.rejects(box.open(JSON.stringify({ ...jwe, protected: other }), context), isFault('not_authentic'))
  })

  test('that is not in the ring is not asked, whatever a stored text names', async () => {
    const sealed = await (await boxOf(kms.createKey())).seal('a secret', context)
    kms.asked.length = 0
    await assert.rejects((await boxOf(arn)).open(sealed, context), isFault('unknown_key'))
    assert.deepEqual(actions(), [])
  })

  test('is found by its alias or id, which is asked about every five minutes', async () => {
    kms.aliases.set('alias/hub', arn)
    for (const ref of ['alias/hub', arn.split('/')[1]!]) {
      const box = await boxOf(ref)
      const sealed = await box.seal('a secret', context)
      assert.match(
        Buffer.from((JSON.parse(sealed) as { protected: string }).protected, 'base64url').toString(),
        new RegExp(arn),
      )
      await box.open(sealed, context)
    }
    const moved = kms.createKey()
    const box = await boxOf('alias/hub', arn)
    const earlier = await box.seal('a secret', context)
    kms.aliases.set('alias/hub', moved)
    clock.advance(5 * 60_000)
    const later = await box.seal('a secret', context)
    assert.equal((await (await boxOf(moved)).open(later, context)).toString(), 'a secret')
    assert.equal(
      (await box.open(earlier, context)).toString(),
      'a secret',
      'the key it named before is in the ring too',
    )
    await assert.rejects((await boxOf('alias/hub')).open(earlier, context), isFault('unknown_key'))
  })

  test('beside keys of another source: each opens its own, the first one seals', async () => {
    const value = Buffer.alloc(32, 9).toString('base64')
    const env = { kind: 'env' as const, value }
    const inKms = { kind: 'aws-kms' as const, keys: [{ ref: arn, region: 'eu-test-1' }] }
    const earlier = createSecretBox(await openKeyRing([env], { clock }))
    const moving = createSecretBox(await openKeyRing([inKms, env], { clock }))
    const old = await earlier.seal('old', context)
    assert.equal((await moving.open(old, context)).toString(), 'old')
    assert.deepEqual(actions(), [], 'KMS is not asked about what it has not sealed')
    const moved = await moving.seal('new', context)
    assert.equal((await (await boxOf(arn)).open(moved, context)).toString(), 'new')
    assert.equal(
      (await createSecretBox(await openKeyRing([env, inKms], { clock })).open(moved, context)).toString(),
      'new',
    )
  })

  test('a header of the one kind does not go with a key of the other', async () => {
    const value = Buffer.alloc(32, 9).toString('base64')
    const local = createSecretBox(await openKeyRing([{ kind: 'env', value }], { clock }))
    const [ours, theirs] = [await local.seal('x', context), await (await boxOf(arn)).seal('x', context)]
    await assert.rejects(local.open(withKid(theirs, headerOf(ours)['kid']), context), isFault('malformed'))
    await assert.rejects((await boxOf(arn)).open(withKid(ours, arn), context), isFault('malformed'))
  })
})

describe('while KMS is in trouble', () => {
  const transient: KmsFault[] = ['throttle', 'internal', 'reset']
  for (const fault of transient)
    test(`${fault}: it is asked again, and the second answer counts`, async () => {
      const box = await boxOf(arn)
      kms.fail(fault, 1)
      const sealed = await box.seal('a secret', context)
      const other = await boxOf(arn)
      kms.fail(fault, 1)
      assert.equal((await other.open(sealed, context)).toString(), 'a secret')
    })

  for (const fault of ['throttle', 'internal', 'denied', 'reset', 'garbage', 'wrong_key_size'] as const)
    test(`${fault}: nothing is sealed, and what opens is what was open; it says what is wrong and no more`, async () => {
      const box = await boxOf(arn)
      const kept = await box.seal('a secret', context)
      const cold = await (await boxOf(arn)).seal('another', context)
      kms.fail(fault)
      const unavailable = (error: unknown): boolean => {
        assert.ok(error instanceof SecretError)
        assert.doesNotMatch(`${error.message} ${String(error.cause)}`, /PLANTED/)
        return error.fault === (fault === 'wrong_key_size' ? 'not_authentic' : 'unavailable')
      }
      if (fault !== 'wrong_key_size') await assert.rejects(box.seal('more', context), unavailable)
      await assert.rejects(box.open(cold, context), unavailable)
      assert.equal((await box.open(kept, context)).toString(), 'a secret')
      kms.fail(fault, 0)
      clock.advance(2_000)
      assert.equal((await box.open(cold, context)).toString(), 'another', 'as soon as it is over')
    })

  test('it is left in peace for two seconds after each failure', async () => {
    const box = await boxOf(arn)
    const sealed = await (await boxOf(arn)).seal('a secret', context)
    kms.fail('denied')
    await assert.rejects(box.open(sealed, context), isFault('unavailable'))
    const { length } = kms.asked
    for (let nth = 0; nth < 50; nth++) await assert.rejects(box.open(sealed, context), isFault('unavailable'))
    assert.equal(kms.asked.length, length)
    clock.advance(2_000)
    await assert.rejects(box.open(sealed, context), isFault('unavailable'))
    assert.equal(kms.asked.length, length + 1)
  })

  test('a disabled key neither seals nor opens', async () => {
    const sealed = await (await boxOf(arn)).seal('a secret', context)
    kms.disabled.add(arn)
    await assert.rejects((await boxOf(arn)).open(sealed, context), isFault('unavailable', /DisabledException/))
    await assert.rejects((await boxOf(arn)).seal('x', context), isFault('unavailable', /DisabledException/))
  })

  test('a key that does not exist is named', async () => {
    await assert.rejects(
      (await boxOf('alias/none')).seal('x', context),
      isFault('unavailable', /alias\/none: NotFound/),
    )
  })

  test('an answer that does not come is given up well within a lease', async () => {
    const box = await boxOf(arn)
    kms.fail('hang')
    const started = process.hrtime.bigint()
    await assert.rejects(box.seal('x', context), isFault('unavailable'))
    assert.ok(process.hrtime.bigint() - started < 60_000_000_000n)
  })
})

function isFault(fault: SecretFault, says = /./): (error: unknown) => boolean {
  return (error) => error instanceof SecretError && error.fault === fault && says.test(error.message)
}

function headerOf(sealed: string): Record<string, unknown> {
  const jwe = JSON.parse(sealed) as { protected: string }
  return JSON.parse(Buffer.from(jwe.protected, 'base64url').toString()) as Record<string, unknown>
}

function withKid(sealed: string, kid: unknown): string {
  const header = Buffer.from(JSON.stringify({ ...headerOf(sealed), kid }))
  return JSON.stringify({ ...(JSON.parse(sealed) as object), protected: header.toString('base64url') })
}
