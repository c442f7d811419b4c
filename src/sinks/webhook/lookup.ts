// Where a host's name leads to, judged: a name any of whose addresses is refused is refused whole. To connect to the others only would
// be as safe; but a name that points inside and outside is somebody's trick or somebody's mistake, and in both cases better told.
import dns from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { isRefused } from './refused-addresses.ts'

/** Fails with the code `ERR_IP_BLOCKED` on a refused name, of which the error says nothing. `lookup`: how names are looked up. */
export function guardedLookup(lookup: LookupFunction = dns.lookup): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found, family) => {
      if (error) return done(error, [])
      const addresses = typeof found === 'string' ? [{ address: found, family: family ?? 0 }] : found
      const [first] = addresses
      if (!first) return done(withCode('ENOTFOUND', 'the name has no address'), [])
      if (addresses.some(({ address }) => isRefused(address))) return done(blocked(), [])
      if (options.all) done(null, addresses)
      else done(null, first.address, first.family)
    })
  }
}

/** All addresses of a host, itself where it is one. Rejects as a lookup fails. */
export async function addressesOf(
  hostname: string,
  { allowPrivate, lookup = dns.lookup }: { allowPrivate: boolean; lookup: LookupFunction | undefined },
): Promise<string[]> {
  if (isIP(hostname) !== 0) {
    if (!allowPrivate && isRefused(hostname)) throw blocked()
    return [hostname]
  }
  return await new Promise((resolve, reject) => {
    const look = allowPrivate ? lookup : guardedLookup(lookup)
    look(hostname, { all: true }, (error, found) => {
      if (error) reject(error)
      else resolve(typeof found === 'string' ? [found] : found.map(({ address }) => address))
    })
  })
}

function blocked(): NodeJS.ErrnoException {
  return withCode('ERR_IP_BLOCKED', 'the host leads to a refused address')
}

function withCode(code: string, message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code })
}
