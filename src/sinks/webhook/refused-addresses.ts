// Which IP addresses the hub does not connect to for a tenant: everything that is not a public unicast address of the internet. The
// one definition: registration judges literal addresses by it, the lookup every answer, and the socket what it is about to connect to.
import { BlockList, isIP } from 'node:net'

/** The IANA IPv4 special-purpose registry, multicast and what is reserved; and one cloud's service on a public address. */
const IPV4 = [
  '0.0.0.0/8', // this host
  '10.0.0.0/8', // private
  '100.64.0.0/10', // carrier-grade NAT, with one cloud's metadata service
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // a cloud's metadata and wire service on a public address
  '169.254.0.0/16', // link-local, with the clouds' metadata services
  '172.16.0.0/12', // private
  '192.0.0.0/24', // IETF protocol assignments, with one cloud's metadata service
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // AMT
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
]

/** Of 2000::/3, the only global unicast range, what leads to an IPv4 address or is not for use. */
const GLOBAL_IPV6 = [
  '2001::/23', // IETF protocol assignments: Teredo, benchmarks, ORCHID
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
]

/**
 * All outside 2000::/3: unspecified, loopback, IPv4-compatible and -translated, NAT64, discard; unique local, link-local,
 * multicast; what is not assigned. Only ::ffff:0:0/96 is left out: the list judges an IPv4-mapped address as the IPv4 address
 * that it is, and would hold an IPv6 range around it against every IPv4 address.
 */
const OTHER_IPV6 = [
  ['::', '::fffe:ffff:ffff'],
  ['::1:0:0:0', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['4000::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
] as const

/** For the `blockList` option of a TCP socket; a TLS socket ignores it. */
export const refusedAddresses: BlockList = buildBlockList()

/** False for public addresses only: also what is not an address, or one of a zone, is refused. */
export function isRefused(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return refusedAddresses.check(address, 'ipv4')
  return family === 0 || address.includes('%') || refusedAddresses.check(address, 'ipv6') || isIsatap(address)
}

/** Whose interface identifier carries an IPv4 address (RFC 5214): that may stand behind any network, so it is no range. */
function isIsatap(address: string): boolean {
  // The URL parser writes an address in its one canonical form.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = [], tail = []] = canonical.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const groups = [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => '0'), ...tail]
  return (groups[4] === '0' || groups[4] === '200') && groups[5] === '5efe'
}

function buildBlockList(): BlockList {
  const list = new BlockList()
  for (const subnet of IPV4) addSubnet(list, subnet, 'ipv4')
  for (const subnet of GLOBAL_IPV6) addSubnet(list, subnet, 'ipv6')
  for (const [first, last] of OTHER_IPV6) list.addRange(first, last, 'ipv6')
  return list
}

function addSubnet(list: BlockList, subnet: string, family: 'ipv4' | 'ipv6'): void {
  const [network = '', bits] = subnet.split('/')
  list.addSubnet(network, Number(bits), family)
}
