// A proxy on loopback that makes tunnels (CONNECT), all of them to one port of this machine whatever they were asked for; it remembers
// what it was asked.
import { createServer, type IncomingMessage } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { connect, type AddressInfo, type Socket } from 'node:net'

export interface ConnectProxy extends AsyncDisposable {
  url: string
  port: number
  /** What each tunnel was asked for: `address:port`. */
  asked: string[]
  /** The credentials that came with each. */
  authorizations: (string | undefined)[]
}

/** What it does when it is asked for a tunnel: makes it (to a port), answers with a status, or something else with the socket. */
type Deed = { to: number } | { status: number } | ((socket: Socket) => void)

export async function startProxy(
  deed: (authority: string) => Deed,
  { tls }: { tls?: { cert: string; key: string } } = {},
): Promise<ConnectProxy> {
  const server = tls ? createTlsServer(tls) : createServer()
  const sockets = new Set<Socket>()
  const proxy: ConnectProxy = {
    url: '',
    port: 0,
    asked: [],
    authorizations: [],
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  const keep = (socket: Socket): Socket => {
    sockets.add(socket)
    return socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
  }
  server.on('connection', keep)
  server.on('secureConnection', keep)
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    const { url = '', headers } = request
    proxy.asked.push(url)
    proxy.authorizations.push(headers['proxy-authorization'])
    const what = deed(url)
    if (typeof what === 'function') return what(socket)
    if ('status' in what) return socket.end(`HTTP/1.1 ${what.status} No\r\nx-inside: secret\r\n\r\nof 10.1.2.3`)
    const onward = keep(
      connect(what.to, '127.0.0.1', () => socket.write('HTTP/1.1 200 Connection established\r\n\r\n')),
    )
    socket.pipe(onward).pipe(socket)
    socket.on('close', () => onward.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  proxy.port = (server.address() as AddressInfo).port
  proxy.url = `${tls ? 'https' : 'http'}://127.0.0.1:${proxy.port}`
  return proxy
}
