import assert from 'node:assert/strict'
import { randomUUID, randomUUIDv7 } from 'node:crypto'
import test from 'node:test'
import * as fc from 'fast-check'
import { describeUuid, isUuid7 } from '../../src/event/uuid7.ts'
import { isVersion7 } from '../support/oracles.ts'

test('the ids that Node makes are of version 7, in either letter case', () => {
  for (let round = 0; round < 100; round++) {
    const id = randomUUIDv7()
    assert.ok(isUuid7(id))
    assert.ok(isUuid7(id.toUpperCase()))
  }
})

test('an absurd time is a valid id: the first and the last millisecond of 48 bits', () => {
  assert.ok(isUuid7('00000000-0000-7000-8000-000000000000'))
  assert.ok(isUuid7('ffffffff-ffff-7fff-bfff-ffffffffffff'))
})

test('ids of another version are not, and it can be said what they are', () => {
  const id = randomUUID()
  assert.ok(!isUuid7(id))
  assert.equal(describeUuid(id), 'a UUID of version 4')
  assert.equal(describeUuid('0197a1b2-c3d4-7e5f-ca9b-0c1d2e3f4a5b'), "a UUID, but not of RFC 9562's variant")
  assert.equal(describeUuid('loan-42'), null)
})

test('nothing may stand around the 36 characters', () => {
  const id = randomUUIDv7()
  for (const text of [
    `${id}\n`,
    `\n${id}`,
    ` ${id}`,
    `{${id}}`,
    `urn:uuid:${id}`,
    `${id}0`,
    id.slice(1),
    id.replaceAll('-', ''),
  ]) {
    assert.ok(!isUuid7(text), JSON.stringify(text))
  }
})

test('one changed character is judged as the bytes of the id say', () => {
  const character = fc.constantFrom(...Array.from('0123456789abcdefABCDEFgG-_ \n\u0000é\u0131'))
  fc.assert(
    fc.property(fc.uuid({ version: 7 }), fc.nat(35), character, (id, at, changed) => {
      const text = id.slice(0, at) + changed + id.slice(at + 1)
      assert.equal(isUuid7(text), isVersion7(text))
    }),
    { numRuns: 20_000 },
  )
})
