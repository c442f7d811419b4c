import { test } from 'node:test'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KeyRingError, openKeyRing, parseKeyRing } from '../../src/secrets/keyring.ts'

const older = Buffer.alloc(32, 1)
const newer = Buffer.alloc(32, 2)

test('one key of 32 bytes is the key itself', () => {
  const ring = parseKeyRing(older.toString('base64'))
  assert.deepEqual([...ring.keys.values()], [older])
})

test('the first key is the current one, the others stay in the ring', () => {
  for (const separator of [',', '\n', ' , ', '\r\n\r\n']) {
    const ring = parseKeyRing(`${newer.toString('base64')}${separator}${older.toString('base64')}\n`)
    assert.deepEqual(ring.keys.get(ring.currentId), newer)
    assert.equal(ring.keys.size, 2)
  }
})

test('a key keeps its id wherever it stands', () => {
  const alone = parseKeyRing(older.toString('base64'))
  const second = parseKeyRing(`${newer.toString('base64')},${older.toString('base64')}`)
  assert.deepEqual(second.keys.get(alone.currentId), older)
})

test('the URL alphabet without padding is taken too', () => {
  const key = Buffer.alloc(32, 0xfb)
  assert.deepEqual([...parseKeyRing(key.toString('base64url')).keys.values()], [key])
})

test('of a longer key every byte counts', () => {
  const long = Buffer.alloc(48, 7)
  const differs = Buffer.from(long).fill(8, 47)
  const [key] = parseKeyRing(long.toString('base64')).keys.values()
  assert.deepEqual(key, createHash('sha256').update(long).digest())
  assert.notDeepEqual(parseKeyRing(differs.toString('base64')).keys, parseKeyRing(long.toString('base64')).keys)
})

test('a key that is too short, no base64 or not there is refused without being repeated', () => {
  const short = Buffer.alloc(31, 0x61).toString('base64')
  assert.throws(() => parseKeyRing(short), refusal(/key 1 has 31 bytes/, short))
  assert.throws(
    () => parseKeyRing(`${older.toString('base64')},p@ssw0rd!`),
    refusal(/key 2 is not base64/, 'p@ssw0rd!'),
  )
  assert.throws(() => parseKeyRing(' \n'), refusal(/there is no key/))
})

test('the source env takes the text as it is', async () => {
  const ring = await openKeyRing({ kind: 'env', value: older.toString('base64') })
  assert.deepEqual([...ring.keys.values()], [older])
})

test('the source file reads the same text from a file', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'keyring-'))
  const path = join(directory.path, 'keks')
  await writeFile(path, `${newer.toString('base64')}\n${older.toString('base64')}\n`)
  const ring = await openKeyRing({ kind: 'file', path })
  assert.deepEqual([...ring.keys.values()], [newer, older])
})

test('a file that cannot be read is named', async () => {
  await assert.rejects(openKeyRing({ kind: 'file', path: '/nowhere/keks' }), refusal(/\/nowhere\/keks/))
})

test('the source aws-kms is refused, saying that it is not supported', async () => {
  await assert.rejects(openKeyRing({ kind: 'aws-kms', ref: 'arn:aws:kms:…' }), refusal(/aws-kms is not supported/))
})

function refusal(says: RegExp, secret?: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof KeyRingError)
    assert.match(error.message, says)
    return secret === undefined || !error.message.includes(secret)
  }
}
