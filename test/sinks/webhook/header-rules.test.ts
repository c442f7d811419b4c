import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import type { HeaderValue } from '../../../src/event/subscription.ts'
import { headerFault, headersFaults } from '../../../src/sinks/webhook/header-rules.ts'

const HUB = 'is set by the hub'
const CONNECTION = 'belongs to the connection'
const NAME = "must be a header's name"
const LONG = 'must not be longer than 4096 characters'
const ASCII = 'must have printable ASCII characters only'
const SPACE = 'must not begin or end with white space'
const SECRET = /^must be secret/
const secret = (value: string): HeaderValue => ({ value, secret: true })

const OF_THE_HUB = [
  'content-type',
  'Content-Type',
  'CONTENT-LENGTH',
  'content-encoding',
  'user-agent',
  'User-Agent',
  'traceparent',
  'TraceState',
  'x-lerian-signature',
  'X-Lerian-Anything',
  'x-lerian-',
  'webhook-id',
  'webhook-signature',
  'Webhook-Whatever',
  'ce-id',
  'CE-Type',
  'ce-made-up',
]

const OF_THE_CONNECTION = [
  'connection',
  'Connection',
  'keep-alive',
  'TE',
  'trailer',
  'Transfer-Encoding',
  'upgrade',
  'host',
  'HOST',
  'expect',
  'http2-settings',
  'proxy-authorization',
  'Proxy-Connection',
  'proxy-authenticate',
]

const NO_NAMES = [
  '',
  ' ',
  'ä',
  '\t',
  '\0',
  '\u007f',
  ':authority',
  ' a',
  'a ',
  'content-length\r',
  'a\r\nb',
  'x'.repeat(257),
]
const NO_NAME_WITH = ' "(),/:;<=>?@[\\]{}\n\r\0\u0085'

const BAD_VALUES = ['x\r\ny: 1', 'x\ny', 'x\ry', 'x\0', 'ü', '€', 'x\u007f', 'x\u0085y', '\u2028', '\ud83d\ude00']

/** Refused at registration, with what is said about them. */
const refused: [string, HeaderValue, string | RegExp][] = [
  ...OF_THE_HUB.map((name): [string, HeaderValue, string] => [name, 'x', HUB]),
  ...OF_THE_CONNECTION.map((name): [string, HeaderValue, string] => [name, 'x', CONNECTION]),
  ...NO_NAME_WITH.split('').map((one): [string, HeaderValue, string] => [`a${one}b`, 'x', NAME]),
  ...NO_NAMES.map((name): [string, HeaderValue, string] => [name, 'x', NAME]),
  ...BAD_VALUES.map((value): [string, HeaderValue, string] => ['x-a', value, ASCII]),
  ...BAD_VALUES.map((value): [string, HeaderValue, string] => ['x-a', secret(value), ASCII]),
  ...[' x', 'x ', '\tx', 'x\t', ' '].map((value): [string, HeaderValue, string] => ['x-a', value, SPACE]),
  ['x-a', 'x'.repeat(4097), LONG],
  ['x-a', '***', 'must not be ***, which stands for a secret'],
  ['authorization', 'Bearer abc', SECRET],
  ['Authorization', 'Bearer abc', SECRET],
  ['cookie', 'a=b', SECRET],
]

const allowed: [string, HeaderValue][] = [
  ['X-Env', 'prod'],
  ['x-empty', ''],
  ['x-tab', 'a\tb c'],
  ["!#$%&'*+.^_`|~09AZaz-", 'x'],
  ['x'.repeat(256), 'x'.repeat(4096)],
  ['authorization', secret('Bearer abc.def')],
  ['cookie', secret('a=b; c="d"')],
  ['constructor', 'x'],
  ['toString', 'x'],
  ['content-language', 'en'],
  ['x-webhook-id', 'x'],
  ['cerberus', 'x'],
  ['accept', '*/*'],
  ['te-x', 'x'],
]

describe("a subscription's own headers", () => {
  for (const [name, value, why] of refused) {
    test(`may not be ${JSON.stringify([name, value]).slice(0, 60)}`, () => {
      const faults = headersFaults({ [name]: value })
      assert.equal(faults.length, 1)
      const { path = '', message = '' } = faults[0] ?? {}
      const pointer = `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      assert.ok([pointer, `${pointer}/value`].includes(path), path)
      if (typeof why === 'string') assert.equal(message, why)
      else assert.match(message, why)
    })
  }

  for (const [name, value] of allowed) {
    test(`may be ${JSON.stringify([name, value]).slice(0, 60)}`, () => {
      assert.deepEqual(headersFaults({ [name]: value }), [])
    })
  }

  test('are judged alike when they are sent, but for what only a caller must be told', () => {
    for (const [name, value, why] of refused) {
      const fault = headerFault(name, typeof value === 'string' ? value : value.value)
      if (![HUB, CONNECTION, NAME, LONG, ASCII, SPACE].includes(String(why))) continue
      assert.equal(fault, why, JSON.stringify([name, value]))
    }
    for (const [name, value] of allowed)
      assert.equal(headerFault(name, typeof value === 'string' ? value : value.value), null)
  })

  test('point at the value of a secret, and never repeat it', () => {
    assert.deepEqual(headersFaults({ 'x-A': secret('s3\r\ncr3t') }), [{ path: '/x-A/value', message: ASCII }])
  })

  test('may not be what the authentication sets, in any letter case', () => {
    const taken = [{ path: '/X-Key', message: 'is set by the authentication' }]
    assert.deepEqual(headersFaults({ 'X-Key': secret('x'), 'x-other': 'x' }, 'x-key'), taken)
    assert.deepEqual(headersFaults({ authorization: secret('x') }, 'x-key'), [])
  })

  test('are at most 32, each once, and at most 12 KiB together', () => {
    assert.deepEqual(headersFaults(many(32)), [])
    assert.deepEqual(headersFaults(many(33)), [{ path: '', message: 'must not be more than 32' }])
    const twice = [{ path: '', message: 'must not have a name twice in different letter case' }]
    assert.deepEqual(headersFaults({ 'x-a': '1', 'X-A': secret('2') }), twice)
    const value = 'x'.repeat(4096 - 3)
    assert.deepEqual(headersFaults({ 'x-a': value, 'x-b': value, 'x-c': value }), [])
    const long = [{ path: '', message: 'must not be longer than 12288 together' }]
    assert.deepEqual(headersFaults({ 'x-a': value, 'x-b': value, 'x-c': secret(`${value}x`) }), long)
  })
})

function many(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, '']))
}
