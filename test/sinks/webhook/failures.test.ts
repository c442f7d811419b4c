import { test } from 'node:test'
import assert from 'node:assert/strict'
import { failureOf } from '../../../src/sinks/webhook/failures.ts'
import type { FailureClass } from '../../../src/sinks/sink.ts'

function withCode(code: string): Error {
  return Object.assign(new Error('10.0.0.1:22 SSH-2.0 secret'), { code })
}

const classes: [FailureClass, string[]][] = [
  ['dns', ['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL']],
  [
    'tls',
    [
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'CERT_HAS_EXPIRED',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'ERR_SSL_WRONG_VERSION_NUMBER',
      'EPROTO',
      'HOSTNAME_MISMATCH',
      'CRL_HAS_EXPIRED',
    ],
  ],
  ['timeout', ['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']],
  ['connection', ['ECONNREFUSED', 'ECONNRESET', 'EHOSTUNREACH', 'EPIPE', 'UND_ERR_SOCKET', 'HPE_INVALID_CONSTANT']],
  ['refused_address', ['ERR_IP_BLOCKED']],
  ['invalid_destination', ['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED']],
  ['internal', ['UND_ERR_DESTROYED', 'UND_ERR_CLOSED']],
]

for (const [errorClass, codes] of classes) {
  test(`${codes.join(', ')}: ${errorClass}`, () => {
    for (const code of codes) assert.equal(failureOf(withCode(code)).errorClass, errorClass, code)
  })
}

test('several addresses tried in vain are refused when one of them was', () => {
  const both = new AggregateError([withCode('ECONNREFUSED'), withCode('ERR_IP_BLOCKED')])
  assert.equal(failureOf(Object.assign(both, { code: 'ECONNREFUSED' })).errorClass, 'refused_address')
  assert.equal(failureOf(new AggregateError([withCode('ENETUNREACH')])).errorClass, 'connection')
})

test('whatever else is thrown is our own fault', () => {
  for (const thrown of [new TypeError('x'), 'text', null, undefined, 7]) {
    assert.equal(failureOf(thrown).errorClass, 'internal')
  }
})

test('a detail never repeats the message, which may name an address', () => {
  for (const [, codes] of classes) {
    for (const code of codes) assert.doesNotMatch(failureOf(withCode(code)).detail, /10\.0\.0\.1|SSH|secret/)
  }
})
