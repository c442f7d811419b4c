// One POST: a wall-clock limit around all of it (lookup, connection, TLS, sending, waiting), and no more of the answer than is
// needed. The status decides; the body is only for the record. So once the headers are there, an answer that is short and
// comes at once leaves its connection in the pool for the next request, and one that is long, slow or endless loses it.
import { Agent } from 'undici'
import { createConnector, type Connector, type ConnectorOptions } from './connector.ts'
import { failed, failureOf, type Failed } from './failures.ts'
import { TunnelError } from './proxy.ts'

/** What is kept of an answer. */
const MAX_RESPONSE_BYTES = 4 * 1024
/** What is read of an answer before its connection is given up: a usual error page still costs no new connection. */
const MAX_READ_BYTES = 64 * 1024
/** How long the body may take once the headers are there. */
const BODY_PATIENCE_MS = 1_000

export interface Post {
  url: URL
  headers: Record<string, string>
  body: Buffer
  /** Until the answer's headers, 1–60000 ms. */
  timeoutMs: number
  /** How much of the answer's body is kept; 4 KiB when it is not said. */
  keepBytes?: number
}

export interface Answer {
  kind: 'answer'
  status: number
  /** The header as it stood. */
  retryAfter: string | null
  /** Its first bytes, as many as were asked for. */
  body: Buffer
}

/** Everything that tenants make the hub call goes through one of these. */
export type OutboundAgent = Agent & Pick<Connector, 'isTunnelling'>

/** A pool of connections for each origin, with the address guard and, where there is one, the proxy. */
export function createAgent(options: ConnectorOptions): OutboundAgent {
  const { connect, isTunnelling } = createConnector(options)
  const agent = new Agent({
    connect,
    // HTTP/1.1 only: giving up a connection then harms no other request.
    allowH2: false,
    // The wall-clock limit covers both, and more exactly.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  return Object.assign(agent, { isTunnelling })
}

/** Never rejects. Takes `timeoutMs` and `BODY_PATIENCE_MS` at most; follows no redirect. */
export async function post(agent: OutboundAgent, request: Post, signal: AbortSignal): Promise<Answer | Failed> {
  const { url, headers, body, timeoutMs, keepBytes = MAX_RESPONSE_BYTES } = request
  const limit = new AbortController()
  let timer = setTimeout(() => limit.abort(), timeoutMs)
  try {
    const answer = await agent.request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.any([signal, limit.signal]),
    })
    clearTimeout(timer)
    timer = setTimeout(() => limit.abort(), BODY_PATIENCE_MS)
    const retryAfter = [answer.headers['retry-after'] ?? null].flat()[0] ?? null
    return { kind: 'answer', status: answer.statusCode, retryAfter, body: await readStart(answer.body, keepBytes) }
  } catch (error) {
    if (signal.aborted) return failed('aborted', 'The hub ended the attempt before an answer had come.')
    if (limit.signal.aborted && agent.isTunnelling(url)) return failureOf(new TunnelError('TUNNEL_TIMEOUT'))
    if (limit.signal.aborted) return failed('timeout', `No answer came within ${timeoutMs} ms.`)
    return failureOf(error)
  } finally {
    clearTimeout(timer)
  }
}

async function readStart(body: AsyncIterable<Buffer>, keepBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      size += chunk.length
      // Leaving the loop destroys the stream, and the connection with it.
      if (size > MAX_READ_BYTES) break
    }
  } catch {
    // Cut off, by the other side or by a limit: what has come is what there is.
  }
  return Buffer.concat(chunks, Math.min(size, keepBytes))
}
