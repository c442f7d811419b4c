import assert from 'node:assert/strict'
import test from 'node:test'
import * as fc from 'fast-check'
import { membersOf, parseJsonText, partsOf, textOf } from '../../src/base/json-text.ts'
import type { JsonText, Span } from '../../src/base/json-text.ts'

function parsed(text: string): JsonText {
  const json = parseJsonText(Buffer.from(text), 100)
  if (typeof json === 'string') assert.fail(`${text} ${json}`)
  return json
}

function nested(depth: number): Buffer {
  return Buffer.from('['.repeat(depth) + ']'.repeat(depth))
}

test('parts are found as they were written', () => {
  const { bytes, root } = parsed(' [ 1e2 , "a,]\\"" ,{"b" : [1,[2]]}, -0,null ,\t[] ]\r\n')
  const texts = partsOf(bytes, root).map((span) => textOf(bytes, span))
  assert.deepEqual(texts, ['1e2', '"a,]\\""', '{"b" : [1,[2]]}', '-0', 'null', '[]'])
})

test('members keep their order and their duplicates, and names are read as JSON strings', () => {
  const { bytes, root } = parsed('{"a":1, "\\u0061":{ "a" : 2 } ,"é\\"":"}"}')
  const members = membersOf(bytes, root).map(({ name, value }) => [name, textOf(bytes, value)])
  assert.deepEqual(members, [
    ['a', '1'],
    ['a', '{ "a" : 2 }'],
    ['é"', '"}"'],
  ])
})

test('any JSON text, however it is spaced, falls into the parts that JSON.parse sees', () => {
  const spacing = fc.constantFrom('', ' ', '\n\t', '  ')
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' }), spacing, spacing, (value, inside, around) => {
      const { bytes, root } = parsed(around + JSON.stringify(value, null, inside) + around)
      assert.deepEqual(rebuilt(bytes, root), JSON.parse(textOf(bytes, root)))
    }),
    { numRuns: 3_000 },
  )
})

/** The value at a span, containers put together from their parts. */
function rebuilt(bytes: Buffer, span: Span): unknown {
  const text = textOf(bytes, span)
  if (text.startsWith('[')) return partsOf(bytes, span).map((part) => rebuilt(bytes, part))
  if (!text.startsWith('{')) return JSON.parse(text)
  return Object.fromEntries(membersOf(bytes, span).map(({ name, value }) => [name, rebuilt(bytes, value)]))
}

test('what is no JSON is said to be none', () => {
  assert.equal(parseJsonText(Buffer.alloc(0), 9), 'is empty')
  assert.equal(parseJsonText(Buffer.from('"\xff"', 'latin1'), 9), 'is not UTF-8')
  for (const text of [' ', '{', '[1,]', '{"a" 1}', '"', '"\\', '01', 'nul', '{}{}', '\ufeff{}', "{'a':1}"]) {
    const fault = parseJsonText(Buffer.from(text), 9)
    assert.ok(typeof fault === 'string' && fault.startsWith('is not JSON: '), text)
  }
})

test('depth counts containers inside each other, and nothing inside strings', () => {
  assert.ok(typeof parseJsonText(nested(9), 9) === 'object')
  assert.equal(parseJsonText(nested(10), 9), 'is nested deeper than 9 levels')
  assert.equal(parseJsonText(Buffer.from('['.repeat(1_000_000)), 9), 'is nested deeper than 9 levels')
  assert.ok(
    typeof parseJsonText(Buffer.from(`["${'['.repeat(99)}\\"${'{'.repeat(99)}",[],[],[],[],[],[],[],[],[]]`), 2) ===
      'object',
  )
})

test('any bytes are either JSON for both readers or for none', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\',
    ',',
    ':',
    ' ',
    '1',
    'true',
    '"a"',
    'é',
    '\u0000',
    '\\u12',
  )
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
      const text = parts.join('')
      assert.equal(typeof parseJsonText(Buffer.from(text), 20) === 'object', isJson(text), text)
    }),
    { numRuns: 20_000 },
  )
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
