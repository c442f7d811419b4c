import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import ipaddr from 'ipaddr.js'
import * as fc from 'fast-check'
import corpus from '../../corpus/addresses.json' with { type: 'json' }
import { urlFaults } from '../../../src/sinks/webhook/address-guard.ts'
import { isRefused, refusedAddresses } from '../../../src/sinks/webhook/refused-addresses.ts'

const strict = { allowPrivate: false }

describe('a URL that is registered', () => {
  for (const url of corpus.refused) {
    test(`${JSON.stringify(url)} is refused`, () => assert.notDeepEqual(urlFaults(url, strict), []))
  }

  for (const url of corpus.allowed) {
    test(`${url} is allowed`, () => assert.deepEqual(urlFaults(url, strict), []))
  }

  const refused = {
    'another spelling of a loopback address': [
      'https://017700000001/',
      'https://127.0.1/',
      'https://0x7f.0x0.0x0.0x1/',
      'https://127.0.0.1./',
      'https://１２７.0.0.1/',
      'https://127。0。0。1/',
      'https://%31%32%37.0.0.1/',
      'https://0/',
      'https://[0:0:0:0:0:0:0:1]/',
      'https://[::127.0.0.1]/',
      'https://[::ffff:7f00:1]/',
      'https://[::ffff:0:127.0.0.1]/',
    ],
    'an IPv6 address that leads to an IPv4 one': [
      'https://[64:ff9b::93.184.216.34]/',
      'https://[64:ff9b:1::7f00:1]/',
      'https://[2002:7f00:1::]/',
      'https://[2001:0:7f00:1::]/',
    ],
    'a cloud metadata service': [
      'https://169.254.169.254/',
      'https://[fd00:ec2::254]/',
      'https://100.100.100.200/',
      'https://192.0.0.192/',
      'https://168.63.129.16/',
      'https://metadata.google.internal/',
      'https://metadata/',
    ],
    'a name that means something in a network only': [
      'https://LOCALHOST/',
      'https://localhost./',
      'https://app.localhost/',
      'https://app.localhost./',
      'https://printer.local/',
      'https://db.corp/',
      'https://vault.prod.svc/',
      'https://db.svc.cluster.local/',
      'https://nas.home.arpa/',
      'https://postgres/',
      'https://postgres:5432/',
      'https://ⓛocalhost/',
    ],
    'a credential': ['https://:pw@example.com/', 'https://a%40b@example.com/', 'https://example.com@10.0.0.1/'],
    'white space or a control character': [
      ' https://example.com/',
      'https://example.com/\n',
      'https://exam\tple.com/',
      'https://example.com/a b',
      'https://example.com/\u0000',
    ],
    'no web address': [
      '//example.com/',
      'wss://example.com/',
      'data:text/plain,x',
      'https:',
      'example.com',
      'https://[::1',
    ],
  }
  for (const [why, urls] of Object.entries(refused)) {
    for (const url of urls) {
      test(`${JSON.stringify(url)} is refused: ${why}`, () => assert.notDeepEqual(urlFaults(url, strict), []))
    }
  }

  test('is refused when it is longer than 2048 characters', () => {
    const url = `https://example.com/${'a'.repeat(2048 - 20)}`
    assert.deepEqual(urlFaults(url, strict), [])
    assert.notDeepEqual(urlFaults(`${url}a`, strict), [])
  })

  test('may be any other name, also one that only looks private', () => {
    for (const host of [
      'localhost.example.com',
      'internal.example.com',
      'mylocal.example',
      'notlocalhost.dev',
      'a.b.',
    ]) {
      assert.deepEqual(urlFaults(`https://${host}/`, strict), [], host)
    }
  })

  test('gets every fault said at once', () => {
    assert.deepEqual(urlFaults('http://me:pw@localhost:0/', strict), [
      'must be an https URL',
      'must not contain credentials',
      'must not name port 0',
      'must name a public host',
    ])
  })

  test('may be plain and private where that is allowed, but still not carry credentials', () => {
    const lax = { allowPrivate: true }
    for (const url of ['http://localhost:8080/h', 'http://10.0.0.1/', 'https://[::1]/', 'http://postgres/']) {
      assert.deepEqual(urlFaults(url, lax), [], url)
    }
    for (const url of ['http://user@localhost/', 'ftp://localhost/', 'http://localhost:0/', '']) {
      assert.notDeepEqual(urlFaults(url, lax), [], url)
    }
  })

  test('never makes the check throw', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => Array.isArray(urlFaults(text, strict))))
    fc.assert(fc.property(fc.webUrl({ withFragments: true }), (text) => Array.isArray(urlFaults(text, strict))))
  })
})

describe('the refused addresses, held against ipaddr.js', () => {
  test('are, of IPv4, exactly what it does not call unicast, and one metadata service', () => {
    // Random addresses rarely meet a small range, so half of them start like one.
    const started = fc
      .constantFrom(0, 10, 100, 127, 169, 172, 192, 198, 203, 224, 240, 255)
      .chain((first) => bytes(3).map((rest) => [first, ...rest]))
    fc.assert(
      fc.property(fc.oneof(bytes(4), started), (octets) => {
        const text = octets.join('.')
        const isPublic = ipaddr.IPv4.parse(text).range() === 'unicast'
        return text === '168.63.129.16' || refusedAddresses.check(text, 'ipv4') === !isPublic
      }),
      { numRuns: 5_000 },
    )
  })

  test('are, of IPv6, everything that it does not call unicast, and everything outside 2000::/3', () => {
    const starts = ['::', '64:ff9b::', '100::', '2001::', '2001:db8::', '2002::', '2620:4f:8000::', '3fff::', 'fe80::']
    const started = fc
      .constantFrom(...starts)
      .chain((start) => bytes(8).map((rest) => [...ipaddr.IPv6.parse(start).toByteArray().slice(0, 8), ...rest]))
    fc.assert(
      fc.property(fc.oneof(bytes(16), started), (octets) => {
        const address = ipaddr.fromByteArray([...octets]) as ipaddr.IPv6
        const isPublic = address.range() === 'unicast' && isUnicastSpace(octets)
        return refusedAddresses.check(address.toString(), 'ipv6') === !isPublic
      }),
      { numRuns: 5_000 },
    )
  })

  test('are the first and the last of every special range, and not their public neighbours', () => {
    const ranges =
      `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
      192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
      224.0.0.0/4 240.0.0.0/4 ::/96 ::fffe:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/32 2001:2::/48 2001:db8::/32 2001::/23 2002::/16
      2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8`.split(/\s+/)
    for (const range of ranges) {
      const kind = range.includes(':') ? ipaddr.IPv6 : ipaddr.IPv4
      const first = kind.networkAddressFromCIDR(range).toByteArray()
      const last = kind.broadcastAddressFromCIDR(range).toByteArray()
      assert.ok(areRefused(first) && areRefused(last), range)
      for (const neighbour of [moved(first, -1), moved(last, 1)]) {
        const isPublic = ipaddr.fromByteArray(neighbour).range() === 'unicast' && isUnicastSpace(neighbour)
        assert.equal(areRefused(neighbour), !isPublic, `beside ${range}`)
      }
    }
  })

  test('are, of IPv4-mapped IPv6, those that are refused as IPv4', () => {
    fc.assert(
      fc.property(bytes(4), (octets) => {
        const text = octets.join('.')
        return refusedAddresses.check(`::ffff:${text}`, 'ipv6') === refusedAddresses.check(text, 'ipv4')
      }),
      { numRuns: 2_000 },
    )
  })
})

function bytes(length: number): fc.Arbitrary<number[]> {
  return fc.array(fc.nat(255), { minLength: length, maxLength: length })
}

/** By the list that sockets have, and by what judges addresses before them: the two agree. */
function areRefused(octets: number[]): boolean {
  const address = ipaddr.fromByteArray(octets)
  const refused = refusedAddresses.check(address.toString(), address.kind())
  assert.equal(isRefused(address.toString()), refused, address.toString())
  return refused
}

/** IPv6: 2000::/3. */
function isUnicastSpace(octets: number[]): boolean {
  return octets.length === 4 || octets[0]! >> 5 === 1
}

/** The address so many further on, around the end of the address space. */
function moved(octets: number[], by: number): number[] {
  const bits = BigInt(octets.length * 8)
  const value = BigInt.asUintN(Number(bits), BigInt(`0x${Buffer.from(octets).toString('hex')}`) + BigInt(by))
  return [...Buffer.from(value.toString(16).padStart(octets.length * 2, '0'), 'hex')]
}
