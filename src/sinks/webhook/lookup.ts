// Where a host's name leads to, judged: a name any of whose addresses is refused is refused whole. To connect to the others only would
// be as safe; but a name that points inside and outside is somebody's trick or somebody's mistake, and in both cases better told.
import dns from 'node:dns'
import type { LookupFunction } from 'node:net'
import { isRefused } from './refused-addresses.ts'

/** Fails with the code `ERR_IP_BLOCKED` on a refused name, of which the error says nothing. `lookup`: how names are looked up. */
export function guardedLookup(lookup: LookupFunction = dns.lookup): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found, family) => {
      if (error) return done(error, [])
      const addresses = typeof found === 'string' ? [{ address: found, family: family ?? 0 }] : found
      const [first] = addresses
      if (!first) return done(withCode('ENOTFOUND', 'the name has no address'), [])
      if (addresses.some(({ address }) => isRefused(address))) {
        return done(withCode('ERR_IP_BLOCKED', 'the name leads to a refused address'), [])
      }
      if (options.all) done(null, addresses)
      else done(null, first.address, first.family)
    })
  }
}

function withCode(code: string, message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code })
}
