import { test } from 'node:test'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KeyRingError, keyIds, openKeyRing, parseKeyRing, type KeyRing } from '../../src/secrets/keyring.ts'
import { manualClock } from '../support/clock.ts'

const older = Buffer.alloc(32, 1)
const newer = Buffer.alloc(32, 2)

const deps = { clock: manualClock() }

async function keysOf(ring: KeyRing): Promise<Buffer[]> {
  return await Promise.all(ring.keys.map(async (key) => (await key.toSeal(CONTEXT)).key))
}

const CONTEXT = { tenantId: 'acme', subscriptionId: '0197', field: 'x' }

test('one key of 32 bytes is the key itself', async () => {
  assert.deepEqual(await keysOf(parseKeyRing(older.toString('base64'))), [older])
})

test('the first key seals, the others stay in the ring; one that is there twice counts once', async () => {
  for (const separator of [',', '\n', ' , ', '\r\n\r\n']) {
    const ring = parseKeyRing(`${newer.toString('base64')}${separator}${older.toString('base64')}\n`)
    assert.deepEqual(await keysOf(ring), [newer, older])
    const twice = parseKeyRing([newer, older, newer].map((key) => key.toString('base64url')).join(separator))
    assert.deepEqual(await keyIds(twice), await keyIds(ring))
  }
})

test('a key keeps its id wherever it stands', async () => {
  const alone = parseKeyRing(older.toString('base64'))
  const second = parseKeyRing(`${newer.toString('base64')},${older.toString('base64')}`)
  assert.equal((await keyIds(second))[1], (await keyIds(alone))[0])
})

test('the URL alphabet without padding is taken too', async () => {
  const key = Buffer.alloc(32, 0xfb)
  assert.deepEqual(await keysOf(parseKeyRing(key.toString('base64url'))), [key])
})

test('of a longer key every byte counts', async () => {
  const long = Buffer.alloc(48, 7)
  const differs = Buffer.from(long).fill(8, 47)
  const [key] = await keysOf(parseKeyRing(long.toString('base64')))
  assert.deepEqual(key, createHash('sha256').update(long).digest())
  assert.notDeepEqual(await keysOf(parseKeyRing(differs.toString('base64'))), [key])
})

test('a key that is too short, no base64 or not there is refused without being repeated', () => {
  const short = Buffer.alloc(31, 0x61).toString('base64')
  assert.throws(() => parseKeyRing(short), refusal(/key 1 has 31 bytes/, short))
  assert.throws(
    () => parseKeyRing(`${older.toString('base64')},p@ssw0rd!`),
    refusal(/key 2 is not base64/, 'p@ssw0rd!'),
  )
  assert.throws(() => parseKeyRing(' \n'), refusal(/there is no key/))
  // What is left of 33 bytes whose last digits were lost on the way.
  const cut = Buffer.alloc(33, 0x61).toString('base64').slice(0, -3)
  assert.throws(() => parseKeyRing(cut), refusal(/key 1 is not base64/, cut))
})

test('the source env takes the text as it is', async () => {
  const ring = await openKeyRing([{ kind: 'env', value: older.toString('base64') }], deps)
  assert.deepEqual(await keysOf(ring), [older])
})

test('the source file reads the same text from a file', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'keyring-'))
  const path = join(directory.path, 'keks')
  await writeFile(path, `${newer.toString('base64')}\n${older.toString('base64')}\n`)
  const ring = await openKeyRing([{ kind: 'file', path }], deps)
  assert.deepEqual(await keysOf(ring), [newer, older])
})

test('a file that cannot be read is named', async () => {
  await assert.rejects(openKeyRing([{ kind: 'file', path: '/nowhere/keks' }], deps), refusal(/\/nowhere\/keks/))
})

test('of two sources the first one’s keys come first; a key service is not asked before it is needed', async () => {
  const arn = 'arn:aws:kms:eu-west-1:111122223333:key/1'
  const ring = await openKeyRing(
    [
      { kind: 'env', value: older.toString('base64') },
      { kind: 'aws-kms', keys: [{ ref: arn, region: 'eu-west-1' }] },
    ],
    deps,
  )
  assert.deepEqual(await keyIds(ring), [...(await keyIds(parseKeyRing(older.toString('base64')))), arn])
})

function refusal(says: RegExp, secret?: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof KeyRingError)
    assert.match(error.message, says)
    return secret === undefined || !error.message.includes(secret)
  }
}
