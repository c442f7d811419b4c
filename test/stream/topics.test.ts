import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { deadLetterSource, factSource } from '../../src/stream/topics.ts'

test('a fact topic is the prefix and one segment', () => {
  assert.equal(factSource('lerian.streaming.lender'), 'lender')
  assert.equal(factSource('lerian.streaming.0loan_core-2'), '0loan_core-2')
})

test('commands and dead letters are never facts', () => {
  assert.equal(factSource('lerian.streaming.lender.commands'), null)
  assert.equal(factSource('lerian.streaming.lender.dlq'), null)
})

test('what is not one lower-case segment is no fact topic', () => {
  const names = [
    '',
    'lerian.streaming',
    'lerian.streaming.',
    'lerian.streaming.Lender',
    'lerian.streaming._x',
    'lerian.streaming.-x',
  ]
  const more = [
    'lerian.streaming.a.b',
    'lerian.streaming.a ',
    'lerian.streaming.a\n',
    'xlerian.streaming.a',
    'lerian.streaming.é',
  ]
  for (const name of [...names, ...more]) assert.equal(factSource(name), null, JSON.stringify(name))
})

test('a source has at most 223 bytes', () => {
  assert.notEqual(factSource(`lerian.streaming.${'a'.repeat(223)}`), null)
  assert.equal(factSource(`lerian.streaming.${'a'.repeat(224)}`), null)
})

test('a dead-letter topic names the source whose dead letters it holds', () => {
  assert.equal(deadLetterSource('lerian.streaming.lender.dlq'), 'lender')
  for (const name of [
    'lerian.streaming.lender',
    'lerian.streaming.dlq',
    'lerian.streaming.lender.commands.dlq',
    'lender.dlq',
  ]) {
    assert.equal(deadLetterSource(name), null, name)
  }
})

test('every source gives one fact topic and one dead-letter topic, and neither is taken for the other', () => {
  const source = fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,222}$/)
  fc.assert(
    fc.property(source, (name) => {
      const fact = `lerian.streaming.${name}`
      assert.equal(factSource(fact), name)
      assert.equal(deadLetterSource(fact), null)
      assert.equal(deadLetterSource(`${fact}.dlq`), name)
      assert.equal(factSource(`${fact}.dlq`), null)
      assert.equal(factSource(`${fact}.commands`), null)
    }),
  )
})

test('any text at all is either one source or none, and never throws', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const source = factSource(`lerian.streaming.${text}`)
      assert.ok(source === null || source === text)
    }),
  )
})
