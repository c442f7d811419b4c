import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf } from '../../../src/control/limits/network.ts'

const same: [string, string][] = [
  ['2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff'],
  ['2001:DB8::1', '2001:0db8:0000:0000:1::'],
  ['::1', '::2'],
  ['fe80::1%eth0', 'fe80::2%eth1'],
  ['203.0.113.7', '::ffff:203.0.113.7'],
]
for (const [one, other] of same) {
  test(`${one} and ${other} are one network`, () => assert.equal(networkOf(one), networkOf(other)))
}

const different: [string, string][] = [
  ['2001:db8:1:2::1', '2001:db8:1:3::1'],
  ['203.0.113.7', '203.0.113.8'],
  ['::1', '127.0.0.1'],
  ['2001:db8::1', '2001:db8:0:1::1'],
]
for (const [one, other] of different) {
  test(`${one} and ${other} are two networks`, () => assert.notEqual(networkOf(one), networkOf(other)))
}
