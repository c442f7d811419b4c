// One client's connection: length-prefixed requests, carried out one by one and answered in their order, as a Kafka broker does.
import type { Socket } from 'node:net'
import { Reader, Writer } from '@platformatic/kafka'
import { API_VERSIONS, apis } from './apis.ts'
import { RequestBody, ResponseBody } from './body.ts'
import type { Context } from './requests/context.ts'

/** Larger than any request that a client with usual limits sends. */
const MOST_REQUEST_BYTES = 64 << 20
const UNSUPPORTED_VERSION = 35

/** Serves `socket` until it closes; a request that cannot be understood ends it. `onFault` hears why. */
export async function serveConnection(
  socket: Socket,
  context: Context,
  onFault: (error: unknown) => void,
): Promise<void> {
  try {
    for await (const frame of framesOf(socket)) {
      const response = await answerTo(frame, context)
      if (response !== null && !socket.destroyed) socket.write(response)
    }
  } catch (error) {
    if (!socket.destroyed) onFault(error)
  } finally {
    socket.destroy()
  }
}

async function* framesOf(socket: Socket): AsyncGenerator<Buffer> {
  let pending: Buffer = Buffer.alloc(0)
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
    while (pending.length >= 4 && pending.length >= 4 + frameLength(pending)) {
      const end = 4 + frameLength(pending)
      yield pending.subarray(4, end)
      pending = pending.subarray(end)
    }
  }
}

function frameLength(pending: Buffer): number {
  const length = pending.readInt32BE(0)
  if (length < 0 || length > MOST_REQUEST_BYTES) throw new Error(`a request of ${length} bytes: not Kafka's protocol`)
  return length
}

async function answerTo(frame: Buffer, context: Context): Promise<Buffer | null> {
  const reader = Reader.from(frame)
  const key = reader.readInt16()
  const version = reader.readInt16()
  const correlation = reader.readInt32()
  const api = apis.get(key)
  if (api === undefined || version < api.least || version > api.most) return unsupported(key, version, correlation)
  const flexible = version >= (api.flexibleFrom ?? Number.POSITIVE_INFINITY)
  reader.readNullableString(false) // who asks
  if (flexible) reader.readTaggedFields()
  const answer = await api.serve(new RequestBody(reader, { version, flexible }), context)
  if (answer === null) return null
  const writer = Writer.create().appendInt32(correlation)
  if (flexible && key !== API_VERSIONS) writer.appendTaggedFields()
  const body = new ResponseBody(writer, { version, flexible })
  answer(body)
  body.end()
  return writer.prependLength().buffer
}

/** A client asks with its newest version first, and is told by the oldest form of the answer what else there is. */
function unsupported(key: number, version: number, correlation: number): Buffer {
  if (key !== API_VERSIONS) throw new Error(`request ${key} is not served in version ${version}`)
  const writer = Writer.create().appendInt32(correlation).appendInt16(UNSUPPORTED_VERSION)
  const served = [...apis]
  writer.appendArray(
    served,
    (w, [api, { least, most }]) => w.appendInt16(api).appendInt16(least).appendInt16(most),
    false,
    false,
  )
  return writer.prependLength().buffer
}
