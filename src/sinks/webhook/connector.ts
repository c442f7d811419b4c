// How connections are made: always a TCP socket with the address guard on it first, then TLS on top of that socket. Not in one
// step, because Node drops `blockList` in `tls.connect`: the guard would stand before http only, and look as if it stood
// before both. The lookup judges a name's addresses; the socket, once more, the very one that it is about to connect to. Where
// there is a proxy, that socket is a tunnel to an address that was judged; plain http never goes through it.
import type { LookupFunction } from 'node:net'
import type { SecureContext } from 'node:tls'
import { buildConnector } from 'undici'
import { addressesOf, guardedLookup } from './lookup.ts'
import { createProxy, type ProxySettings } from './proxy.ts'
import { refusedAddresses } from './refused-addresses.ts'

export interface ConnectorOptions {
  /** Lets plain http and private addresses through. */
  allowPrivate: boolean
  /** How host names are looked up; without it the platform's own way. */
  lookup?: LookupFunction
  /** Without it everything is connected to directly. */
  proxy?: ProxySettings | null
  /** The client's certificate and the authorities to trust; without it none, and the public ones. */
  secureContext?: SecureContext
}

export interface Connector {
  /** A refused address fails with the code `ERR_IP_BLOCKED` before anything is sent to it. */
  connect: buildConnector.connector
  /** Whether the proxy is being asked for a tunnel to this origin. */
  isTunnelling: (origin: URL) => boolean
}

export function createConnector(options: ConnectorOptions): Connector {
  const { allowPrivate, lookup, proxy: settings, secureContext } = options
  const connectTcp = buildConnector({
    ...(lookup && { lookup }),
    ...(!allowPrivate && { blockList: refusedAddresses, lookup: guardedLookup(lookup) }),
  })
  const startTls = buildConnector({ allowH2: false, ...(secureContext && { secureContext }) })
  const proxy = settings ? createProxy(settings, (hostname) => addressesOf(hostname, { allowPrivate, lookup })) : null
  return {
    connect: (target, callback) => {
      const isTls = target.protocol === 'https:'
      const port = portOf(target)
      const whenOpen: buildConnector.Callback = (...result) => {
        const [error, socket] = result
        if (error || !isTls) callback(...result)
        else startTls({ ...target, port, httpSocket: socket }, callback)
      }
      if (!isTls || !proxy?.serves(target.hostname, port)) connectTcp({ ...target, protocol: 'http:', port }, whenOpen)
      else {
        const refuse = (error: Error): void => whenOpen(error, null)
        void proxy.open(target.hostname, port).then((socket) => whenOpen(null, socket), refuse)
      }
    },
    isTunnelling: (origin) => proxy?.isOpening(origin.hostname.replace(/^\[|\]$/g, ''), portOf(origin)) ?? false,
  }
}

function portOf({ protocol, port }: { protocol: string; port: string }): string {
  return port || (protocol === 'https:' ? '443' : '80')
}
