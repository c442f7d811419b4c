// Which addresses the hub may be made to call. Tenants choose the URLs, so without this they could reach whatever the hub can:
// its own host, its private network, a cloud's metadata service. One list of refused ranges serves twice: `urlFaults` judges a
// URL when it is registered, by its syntax and a literal address alone; `refusedAddresses` goes to the sockets (connector.ts),
// which check the address that is really connected to, after the name was looked up, each time (a name may change its mind).
import { BlockList, isIP } from 'node:net'

const MAX_URL_LENGTH = 2048

/** Everything that is not a public unicast address of the internet (the IANA special-purpose registries), and one metadata service. */
const REFUSED_IPV4 = [
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
const REFUSED_GLOBAL_IPV6 = [
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
const REFUSED_OTHER_IPV6 = [
  ['::', '::fffe:ffff:ffff'],
  ['::1:0:0:0', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['4000::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
] as const

/** Names that mean something only inside some network, beside those without any dot. */
const PRIVATE_NAME = /(^|\.)(localhost|local|localdomain|internal|intranet|private|corp|home|lan|svc|onion|home\.arpa)$/

/** For the `blockList` option of a TCP socket; a TLS socket ignores it. */
export const refusedAddresses: BlockList = buildBlockList()

/**
 * What is wrong with a webhook's URL, in readable sentences that need the field's name before them; none when it may be
 * registered. Looks up no name. `allowPrivate` lets plain http and private addresses through.
 */
export function urlFaults(text: string, options: { allowPrivate: boolean }): string[] {
  if (text.length > MAX_URL_LENGTH) return [`must not be longer than ${MAX_URL_LENGTH} characters`]
  // The URL parser would silently drop some of these.
  if (/[\s\p{Cc}]/u.test(text)) return ['must not contain white space or control characters']
  const url = URL.parse(text)
  if (!url || !isHttp(url)) return [options.allowPrivate ? 'must be an http or https URL' : 'must be an https URL']
  const faults: string[] = []
  if (url.protocol !== 'https:' && !options.allowPrivate) faults.push('must be an https URL')
  if (url.username !== '' || url.password !== '') faults.push('must not contain credentials')
  if (url.port === '0') faults.push('must not name port 0')
  if (!options.allowPrivate && isPrivateHost(url)) faults.push('must name a public host')
  return faults
}

function isHttp(url: URL): boolean {
  return url.protocol === 'https:' || url.protocol === 'http:'
}

/** The URL parser has brought the host to one form already: lower case, punycode, addresses without leading zeros or hex. */
function isPrivateHost(url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const family = isIP(host)
  if (family !== 0) return refusedAddresses.check(host, family === 6 ? 'ipv6' : 'ipv4')
  return !host.includes('.') || PRIVATE_NAME.test(host)
}

function buildBlockList(): BlockList {
  const list = new BlockList()
  for (const subnet of REFUSED_IPV4) addSubnet(list, subnet, 'ipv4')
  for (const subnet of REFUSED_GLOBAL_IPV6) addSubnet(list, subnet, 'ipv6')
  for (const [first, last] of REFUSED_OTHER_IPV6) list.addRange(first, last, 'ipv6')
  return list
}

function addSubnet(list: BlockList, subnet: string, family: 'ipv4' | 'ipv6'): void {
  const [network = '', bits] = subnet.split('/')
  list.addSubnet(network, Number(bits), family)
}
