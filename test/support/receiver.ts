// A webhook's receiver on loopback that remembers what it was sent, and answers as a test says.
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { TLSSocket } from 'node:tls'

export interface ReceivedRequest {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: Buffer
  /** The common name of the client's certificate, and whether its TLS session goes on with an earlier one. */
  client: string | null
  resumed: boolean
}

export interface Receiver extends AsyncDisposable {
  port: number
  url: string
  requests: ReceivedRequest[]
  /** How many connections were opened to it. */
  connections: number
}

export type Answer = (response: ServerResponse, request: ReceivedRequest) => void

const answerOk: Answer = (response) => response.end('ok')
export const neverAnswer: Answer = () => undefined

/** Listens on `host` (`::` is every address of the machine); with a certificate over TLS only. */
export async function startReceiver(
  answer: Answer = answerOk,
  { host = '127.0.0.1', tls }: { host?: string; tls?: ServerOptions } = {},
): Promise<Receiver> {
  const listener = (request: IncomingMessage, response: ServerResponse): void => void take(request, response)
  const server = tls ? createTlsServer(tls, listener) : createServer(listener)
  const receiver: Receiver = {
    port: 0,
    url: '',
    requests: [],
    connections: 0,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
  server.on('connection', () => receiver.connections++)
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  receiver.port = (server.address() as AddressInfo).port
  receiver.url = `${tls ? 'https' : 'http'}://127.0.0.1:${receiver.port}/hook`
  return receiver

  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url: path = '', headers } = request
    const received = { method, path, headers, body: await buffer(request), ...clientOf(request.socket) }
    receiver.requests.push(received)
    answer(response, received)
  }
}

function clientOf(socket: Socket): Pick<ReceivedRequest, 'client' | 'resumed'> {
  if (!(socket instanceof TLSSocket)) return { client: null, resumed: false }
  const { CN = null } = socket.getPeerCertificate().subject ?? {}
  return { client: [CN].flat()[0] ?? null, resumed: socket.isSessionReused() }
}
