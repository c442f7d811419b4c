// Connections through the operator's proxy (`HTTPS_PROXY`), which opens no hole in the address guard: the hub looks the name up and judges
// its addresses itself, and asks the proxy for a tunnel (CONNECT) to an address, never to a name. So what was judged is what is
// connected to, and TLS, which goes through the tunnel, still insists on a certificate for the name. The proxy itself is the
// operator's, and may be anywhere.
import { request as requestPlain, type ClientRequest } from 'node:http'
import { request as requestByTls } from 'node:https'
import { isIPv6, type Socket } from 'node:net'
import { unescape } from 'node:querystring'

export interface ProxySettings {
  /** `http://` or `https://`, with the user and password that it asks for. */
  url: string
  /** What is connected to without it, as `NO_PROXY` has it: `host`, `.domain` for all within it, either with a `:port`; `*`. */
  except: readonly string[]
}

export interface Proxy {
  /** `hostname` without brackets. */
  serves(hostname: string, port: string): boolean
  /** A socket that leads to the host. Rejects with a `TunnelError`, and with what the lookup says. */
  open(hostname: string, port: string): Promise<Socket>
  /** Whether a tunnel to this host is being asked for. */
  isOpening(hostname: string, port: string): boolean
}

/** Until there is a tunnel to one address: what undici gives a connection. */
const PATIENCE_MS = 10_000
/** Of one name. */
const MOST_ADDRESSES = 4

/**
 * Why there is no tunnel. `code` begins with `PROXY_`: the proxy cannot be reached or does not take us, whatever the destination;
 * or with `TUNNEL_`: it could not, or would not, connect to this one. Says nothing of where the proxy is, nor of what it said.
 */
export class TunnelError extends Error {
  override readonly name = 'TunnelError'
  readonly code: string

  constructor(code: string, cause?: Error) {
    super('there is no tunnel to the destination', { cause })
    this.code = code
  }
}

/** `addressesOf`: a host's addresses, judged. */
export function createProxy(settings: ProxySettings, addressesOf: (hostname: string) => Promise<string[]>): Proxy {
  const opening = new Map<string, number>()
  return {
    serves: (hostname, port) => !settings.except.some((entry) => isExcepted(entry, hostname, port)),
    open: async (hostname, port) => {
      const key = `${hostname} ${port}`
      opening.set(key, (opening.get(key) ?? 0) + 1)
      try {
        return await openToAny(settings, await addressesOf(hostname), port)
      } finally {
        const others = (opening.get(key) ?? 1) - 1
        if (others === 0) opening.delete(key)
        else opening.set(key, others)
      }
    },
    isOpening: (hostname, port) => opening.has(`${hostname} ${port}`),
  }
}

function isExcepted(entry: string, hostname: string, port: string): boolean {
  const bare = isIPv6(entry) ? `[${entry}]` : entry
  const { pattern = '', only } = /^\[?(?<pattern>.*?)\]?(:(?<only>\d+))?$/.exec(bare.toLowerCase())?.groups ?? {}
  if (only !== undefined && only !== port) return false
  const host = hostname.toLowerCase().replace(/\.$/, '')
  return pattern === '*' || (/^\*?\./.test(pattern) ? host.endsWith(pattern.replace(/^\*/, '')) : host === pattern)
}

/** One after the other, those of IPv4 first: few proxies reach others. A proxy that does not work fails for all. */
async function openToAny({ url }: ProxySettings, addresses: string[], port: string): Promise<Socket> {
  const inTurn = addresses.toSorted((a, b) => Number(isIPv6(a)) - Number(isIPv6(b))).slice(0, MOST_ADDRESSES)
  let last: unknown
  for (const address of inTurn) {
    try {
      return await openTunnel(new URL(url), isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`)
    } catch (error) {
      if (error instanceof TunnelError && error.code.startsWith('PROXY_')) throw error
      last = error
    }
  }
  throw last
}

async function openTunnel(proxy: URL, authority: string): Promise<Socket> {
  const secure = proxy.protocol === 'https:'
  const request = (secure ? requestByTls : requestPlain)({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port || (secure ? 443 : 80),
    method: 'CONNECT',
    path: authority,
    headers: { host: authority, ...credentialsOf(proxy) },
    // No connection is used again: each becomes a tunnel.
    agent: false,
  })
  return await tunnelOf(request, secure ? 'secureConnect' : 'connect')
}

async function tunnelOf(request: ClientRequest, reachedBy: 'connect' | 'secureConnect'): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  let blame: 'PROXY' | 'TUNNEL' = 'PROXY'
  const fail = (code: string | number, cause?: Error): void => {
    reject(new TunnelError(`${blame}_${code}`, cause))
    request.destroy()
  }
  const timer = setTimeout(() => fail('TIMEOUT'), PATIENCE_MS)
  // Once it is reached, what goes wrong may be the destination's fault: some proxies do not say so, but hang or hang up.
  request.once('socket', (socket) => socket.once(reachedBy, () => (blame = 'TUNNEL')))
  request.once('connect', ({ statusCode = 0 }, socket: Socket, head) => {
    // Who listens behind a tunnel speaks TLS, and waits for us to begin.
    if (statusCode >= 200 && statusCode < 300 && head.length === 0) return resolve(socket)
    if (statusCode === 407 || statusCode === 401) blame = 'PROXY'
    socket.destroy()
    fail(statusCode)
  })
  request.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'FAILED', error))
  request.end()
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}

function credentialsOf({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {}
  const plain = `${unescape(username)}:${unescape(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(plain).toString('base64')}` }
}
