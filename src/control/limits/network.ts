// Whom an address stands for: an IPv4 address for itself, an IPv6 one for its /64, which is what a single customer is given.
import { isIPv6 } from 'node:net'

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i
const GROUPS_OF_64_BITS = 4

/** The same text for all addresses of one network. */
export function networkOf(address: string): string {
  const ip = address.split('%', 1)[0] ?? ''
  const mapped = MAPPED.exec(ip)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(ip)) return address
  const [before = [], after = []] = ip.split('::').map((part) => part.split(':').filter(Boolean))
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0')
  const groups = [...before, ...zeros, ...after].slice(0, GROUPS_OF_64_BITS)
  return groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')
}
