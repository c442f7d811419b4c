import assert from 'node:assert/strict'
import test from 'node:test'
import { factTopic, isSource } from '../../src/event/source.ts'

test('a source is one lower-case segment of at most 223 bytes', () => {
  for (const text of ['lender', 'br_consignado-gw2', '0', 'a'.repeat(223)]) assert.ok(isSource(text), text)
  for (const text of [
    '',
    'Lender',
    'lend.er',
    '-lender',
    '_lender',
    'lénder',
    'lender ',
    'lender\n',
    'a'.repeat(224),
    'ſ',
  ]) {
    assert.ok(!isSource(text), text)
  }
})

test("the longest source's topics fit in Kafka's 249 characters", () => {
  assert.equal(factTopic('lender'), 'lerian.streaming.lender')
  assert.equal(`${factTopic('a'.repeat(223))}.commands`.length, 249)
})
