import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HubError } from '../../src/base/errors.ts'
import { conditionsOf, entityTag, insist, isUnchanged, parseTagList } from '../../src/control/preconditions.ts'

const seventh = { version: 7 }
const failed = (error: unknown): boolean => error instanceof HubError && error.code === 'precondition_failed'

describe('a list of entity tags', () => {
  test('is read as RFC 9110 writes it', () => {
    for (const [text, tags] of [
      ['*', '*'],
      [' * ', '*'],
      ['"7"', ['"7"']],
      ['W/"7"', ['W/"7"']],
      ['"7", "8"', ['"7"', '"8"']],
      ['"7","8" ,\t"9"', ['"7"', '"8"', '"9"']],
      [', "7", , "8",', ['"7"', '"8"']],
      ['""', ['""']],
      ['"a,b"', ['"a,b"']],
      ['"a,b", W/"c"', ['"a,b"', 'W/"c"']],
      ['"\u00e9"', ['"\u00e9"']],
    ] as const)
      assert.deepEqual(parseTagList(text), tags, text)
  })

  test('is refused where it is none', () => {
    for (const text of [
      '',
      ' ',
      ',',
      '7',
      '"7',
      '7"',
      '"7" "8"',
      'w/"7"',
      'W/7',
      '*, "7"',
      '"7", *',
      '"a b"',
      '"7";q=1',
      "'7'",
    ])
      assert.equal(parseTagList(text), null, text)
  })

  test('is read in time that grows with its length alone', () => {
    assert.equal(parseTagList(`${'"a", '.repeat(3_000)}x`), null)
    assert.equal(parseTagList(`${', '.repeat(20_000)}x`), null)
  })
})

describe('a condition', () => {
  test('of If-Match is fulfilled by the version, strongly compared, or by anything', () => {
    assert.equal(entityTag(seventh), '"7"')
    for (const tags of ['"7"', '*', '"6", "7"']) insist(seventh, conditionsOf({ 'if-match': tags }))
    for (const tags of ['"6"', 'W/"7"', '"07"', '"6", W/"7"', '""'])
      assert.throws(() => insist(seventh, conditionsOf({ 'if-match': tags })), failed, tags)
  })

  test('of If-None-Match is fulfilled by all but the version, weakly compared', () => {
    for (const tags of ['"6"', '"70"']) insist(seventh, conditionsOf({ 'if-none-match': tags }))
    for (const tags of ['"7"', 'W/"7"', '*', '"1", W/"7"'])
      assert.throws(() => insist(seventh, conditionsOf({ 'if-none-match': tags })), failed, tags)
  })

  test('is not set where no header is', () => insist(seventh, conditionsOf({})))

  test('lets a reader know that nothing has changed', () => {
    assert.equal(isUnchanged(seventh, conditionsOf({})), false)
    assert.equal(isUnchanged(seventh, conditionsOf({ 'if-none-match': '"7"' })), true)
    assert.equal(isUnchanged(seventh, conditionsOf({ 'if-none-match': 'W/"7"' })), true)
    assert.equal(isUnchanged(seventh, conditionsOf({ 'if-none-match': '"6"' })), false)
    assert.throws(() => isUnchanged(seventh, conditionsOf({ 'if-match': '"6"', 'if-none-match': '"7"' })), failed)
  })
})
