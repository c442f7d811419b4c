import { test } from 'node:test'
import assert from 'node:assert/strict'
import { destinationKey } from '../../../src/sinks/webhook/destination-key.ts'

const keyOf = (url: string, headers: Record<string, string> = {}) => destinationKey({ kind: 'webhook', url, headers })

test('is a short hash', () => {
  assert.match(keyOf('https://example.com/h'), /^[0-9a-f]{32}$/)
})

test('is stable across versions: breakers are stored by it', () => {
  assert.equal(keyOf('https://example.com/h'), 'cb3489a133caa0728fda8836a81888bf')
})

test('is the same for every spelling of one URL', () => {
  const key = keyOf('https://bücher.example/a%2Fb?c=%C3%A9')
  for (const url of [
    'https://BÜCHER.example/a%2Fb?c=%C3%A9',
    'HTTPS://xn--bcher-kva.example/a%2fb?c=%c3%a9',
    'https://xn--bcher-kva.example:443/a%2Fb?c=é',
    'https://bücher.example./a%2Fb?c=%C3%A9#part',
    'https://bücher.example/x/../a%2Fb?c=%C3%A9',
  ]) {
    assert.equal(keyOf(url), key, url)
  }
  assert.equal(keyOf('https://example.com'), keyOf('https://example.com/'))
})

test('differs by everything that leads elsewhere', () => {
  const urls = [
    'https://example.com/h',
    'http://example.com/h',
    'https://example.com:8443/h',
    'https://example.com/H',
    'https://example.com/h/',
    'https://example.com/h?a=1',
    'https://example.org/h',
    'https://example.com/%68',
  ]
  assert.equal(new Set(urls.map((url) => keyOf(url))).size, urls.length)
})

test("does not depend on a subscription's headers", () => {
  assert.equal(keyOf('https://example.com/h', { 'x-env': 'prod' }), keyOf('https://example.com/h'))
})

test('of a URL that cannot be parsed is still a key', () => {
  assert.match(keyOf('not a url'), /^[0-9a-f]{32}$/)
})
