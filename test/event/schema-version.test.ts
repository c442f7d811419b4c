import assert from 'node:assert/strict'
import test from 'node:test'
import * as fc from 'fast-check'
import { schemaMajor } from '../../src/event/schema-version.ts'
import { majorOf } from '../support/oracles.ts'

test('the major is what stands before the first dot, with or without a leading v', () => {
  const readings = {
    '1.4.2': 1,
    v2: 2,
    '0.9.0': 0,
    '3.1': 3,
    'v10.0.0-rc.1+build.5': 10,
    '1-rc': 1,
    '7+exp.sha-5114f85': 7,
  }
  for (const [text, major] of Object.entries(readings)) assert.equal(schemaMajor(text), major, text)
})

test('what is no version has no major', () => {
  const wrong = [
    '',
    'v',
    'V1',
    'vv1',
    '1.',
    '.1',
    '1.x',
    '1.0.0.0',
    '01.0.0',
    '1.0.0-01',
    '1.0.0-',
    '1+',
    '-1',
    ' 1',
    '1\n',
    '1,0',
  ]
  for (const text of wrong) assert.equal(schemaMajor(text), null, JSON.stringify(text))
})

test('the largest major is what an integer column holds', () => {
  assert.equal(schemaMajor('2147483647.0.0'), 2_147_483_647)
  assert.equal(schemaMajor('2147483648.0.0'), null)
})

test('a version has at most 64 bytes', () => {
  assert.equal(schemaMajor(`1.0.0-${'a'.repeat(58)}`), 1)
  assert.equal(schemaMajor(`1.0.0-${'a'.repeat(59)}`), null)
})

test('whatever else is written is read as an independent reading reads it', () => {
  const pieces = fc.constantFrom(
    '0',
    '1',
    '01',
    '10',
    '2147483648',
    'v',
    'V',
    '.',
    '.',
    '.',
    '-',
    '+',
    'rc',
    'x',
    ' ',
    '\n',
    'é',
    '٣',
  )
  let versions = 0
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 9 }), (parts) => {
      const text = parts.join('')
      assert.equal(schemaMajor(text), majorOf(text), JSON.stringify(text))
      if (majorOf(text) !== null) versions++
    }),
    { numRuns: 50_000, seed: 142 },
  )
  assert.ok(versions > 1_000, `only ${versions} valid ones were tried`)
})
