// How connections are made: always a TCP socket with the address guard on it first, then TLS on top of that socket. Not in one
// step, because Node drops `blockList` in `tls.connect`: the guard would stand before http only, and look as if it stood
// before both. The lookup judges a name's addresses; the socket, once more, the very one that it is about to connect to.
import type { LookupFunction } from 'node:net'
import type { SecureContext } from 'node:tls'
import { buildConnector } from 'undici'
import { guardedLookup } from './lookup.ts'
import { refusedAddresses } from './refused-addresses.ts'

export interface ConnectorOptions {
  /** Lets plain http and private addresses through. */
  allowPrivate: boolean
  /** How host names are looked up; without it the platform's own way. */
  lookup?: LookupFunction
  /** The client's certificate and the authorities to trust; without it none, and the public ones. */
  secureContext?: SecureContext
}

/** A refused address fails with the code `ERR_IP_BLOCKED` before anything is sent to it. */
export function createConnector({ allowPrivate, lookup, secureContext }: ConnectorOptions): buildConnector.connector {
  const connectTcp = buildConnector({
    ...(lookup && { lookup }),
    ...(!allowPrivate && { blockList: refusedAddresses, lookup: guardedLookup(lookup) }),
  })
  const startTls = buildConnector({ allowH2: false, ...(secureContext && { secureContext }) })
  return (target, callback) => {
    const isTls = target.protocol === 'https:'
    const port = target.port || (isTls ? '443' : '80')
    connectTcp({ ...target, protocol: 'http:', port }, (...result) => {
      const [error, socket] = result
      if (error || !isTls) callback(...result)
      else startTls({ ...target, port, httpSocket: socket }, callback)
    })
  }
}
