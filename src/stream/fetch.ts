// Kafka's Fetch request with the records left undecoded, which the library's own codec cannot do: so one partition's broken batch
// fails that partition alone, batches are decompressed one by one as they are needed, and what is held is counted in bytes.
// Without a session each request says everything that it wants: a partition that is busy is simply not asked for.
import { createAPI, ProtocolError, Writer } from '@platformatic/kafka'
import type { API, Broker, Reader, ResponseParser } from '@platformatic/kafka'
import type { Wire } from './wire.ts'

export interface PartitionToFetch {
  topic: string
  /** The topic's id, so that a topic made anew under the same name is not taken for the old one. */
  topicId: string
  partition: number
  offset: bigint
  maxBytes: number
}

export interface FetchRequest {
  /** How long the broker may wait for the first record, in ms. */
  waitMs: number
  /** For all partitions together; exceeded only by a first record batch that is larger. */
  maxBytes: number
  partitions: PartitionToFetch[]
}

export interface FetchedPartition {
  topic: string
  partition: number
  /** 0, or the protocol's error code. */
  errorCode: number
  /** The first offset that may not be read yet. */
  end: bigint
  /** Transactions that were aborted, each from its first offset to its producer's next abort marker. */
  aborted: { producerId: bigint; firstOffset: bigint }[]
  /** Record batches as they lie in the log; the last one may be cut off. */
  bytes: Buffer
}

/** Asks `broker` for records at chosen positions. Rejects when the request as a whole fails. */
export async function fetchRecords(wire: Wire, broker: Broker, request: FetchRequest): Promise<FetchedPartition[]> {
  const { version } = await wire.api('Fetch')
  const names = new Map(
    request.partitions.flatMap(({ topic, topicId }) => [
      [topic, topic],
      [topicId, topic],
    ]),
  )
  const fetched = await wire.send(broker, codec(Math.min(version, NEWEST)), [request])
  return fetched.map((partition) => ({ ...partition, topic: names.get(partition.topic) ?? partition.topic }))
}

const FETCH_KEY = 1
/** The oldest layout written here: Kafka 2.3. */
const OLDEST = 11
/** From here on strings and arrays are compact and structures carry tags: Kafka 2.7. */
const FLEXIBLE = 12
/** From here on a topic goes by its id: Kafka 3.1. */
const NEWEST = 13
const READ_COMMITTED = 1
const NO_EPOCH = -1
const NO_SESSION = { id: 0, epoch: -1 }

const codecs = new Map<number, API<[FetchRequest], FetchedPartition[]>>()

function codec(version: number): API<[FetchRequest], FetchedPartition[]> {
  if (version < OLDEST)
    throw new Error(`the broker is too old: Kafka 2.3 or newer is needed (it serves Fetch ${version})`)
  const known = codecs.get(version)
  if (known !== undefined) return known
  const flexible = version >= FLEXIBLE
  const write = (request: FetchRequest): Writer => writeRequest(request, version)
  const read: ResponseParser<FetchedPartition[]> = (...given) => readResponse(given[3], version)
  const made = createAPI<[FetchRequest], FetchedPartition[]>(FETCH_KEY, version, write, read, flexible, flexible)
  codecs.set(version, made)
  return made
}

function writeRequest(request: FetchRequest, version: number): Writer {
  const flexible = version >= FLEXIBLE
  const topics = [...Map.groupBy(request.partitions, ({ topicId }) => topicId)]
  const writer = Writer.create()
    .appendInt32(-1) // the replica that asks: none, a consumer
    .appendInt32(request.waitMs)
    .appendInt32(1) // answer as soon as there is anything
    .appendInt32(request.maxBytes)
    .appendInt8(READ_COMMITTED)
    .appendInt32(NO_SESSION.id)
    .appendInt32(NO_SESSION.epoch)
  const partition = (w: Writer, { partition: index, offset, maxBytes }: PartitionToFetch): void => {
    w.appendInt32(index).appendInt32(NO_EPOCH).appendInt64(offset)
    if (flexible) w.appendInt32(NO_EPOCH) // of the record fetched last
    w.appendInt64(-1n).appendInt32(maxBytes)
  }
  const topic = (w: Writer, [topicId, partitions]: [string, PartitionToFetch[]]): void => {
    if (version >= NEWEST) w.appendUUID(topicId)
    else w.appendString(partitions[0]?.topic ?? '', flexible)
    w.appendArray(partitions, partition, flexible, flexible)
  }
  writer
    .appendArray(topics, topic, flexible, flexible)
    .appendArray<never>([], () => undefined, flexible, flexible) // partitions that a session is to forget
    .appendString('', flexible) // our rack
  return flexible ? writer.appendTaggedFields() : writer
}

function readResponse(reader: Reader, version: number): FetchedPartition[] {
  const flexible = version >= FLEXIBLE
  reader.readInt32() // for how long we are throttled
  const errorCode = reader.readInt16()
  if (errorCode !== 0) throw new ProtocolError(errorCode)
  reader.readInt32() // the session, which there is not
  const topics = reader.readArray(
    (r) => {
      const topic = version >= NEWEST ? r.readUUID() : r.readString(flexible)
      return r.readArray((one) => readPartition(one, topic, flexible), flexible, flexible)
    },
    flexible,
    flexible,
  )
  return topics.flat()
}

function readPartition(reader: Reader, topic: string, flexible: boolean): FetchedPartition {
  const partition = reader.readInt32()
  const errorCode = reader.readInt16()
  reader.readInt64() // the high watermark, past which lies what the end of open transactions still hides
  const end = reader.readInt64()
  reader.readInt64() // where the log starts
  const aborted = reader.readNullableArray(
    (r) => ({ producerId: r.readInt64(), firstOffset: r.readInt64() }),
    flexible,
    flexible,
  )
  reader.readInt32() // a replica to read from instead
  const size = flexible ? reader.readUnsignedVarInt() - 1 : reader.readInt32()
  const from = reader.position
  const bytes = size > 0 ? reader.buffer.slice(from, from + size) : Buffer.alloc(0)
  if (size > 0) reader.skip(size)
  return { topic, partition, errorCode, end, aborted: aborted ?? [], bytes: Buffer.from(bytes) }
}
