// Fetch, without sessions: answered as soon as one of the partitions has something, at the latest when the client's patience ends.
// Limits are Kafka's: the first batch of the first partition that has one is given whole, whatever its size.
import type { RequestBody } from '../body.ts'
import { errorCode, type Answer, type Context, type Serve } from './context.ts'

/** From this version on topics go by their ids. */
const BY_ID = 13
const FETCH = 1

interface Question {
  partition: number
  offset: bigint
  mostBytes: number
}

interface Finding {
  partition: number
  errorCode: number
  end: bigint
  start: bigint
  bytes: Buffer
}

interface Findings {
  topic: string
  partitions: Finding[]
}

export const fetch: Serve = async (body, context) => {
  const { waitMs, least, most, topics } = readRequest(body)
  const deadline = Date.now() + waitMs
  const fault = context.faults.next(FETCH)
  if (fault !== 0) return answer(fault, [])
  let found = look(context, topics, most)
  while (!isEnough(found, least) && Date.now() < deadline) {
    await context.appended(deadline - Date.now())
    found = look(context, topics, most)
  }
  return answer(errorCode.NONE, found)
}

interface Request {
  waitMs: number
  least: number
  most: number
  topics: { topic: string; name: (context: Context) => string | undefined; partitions: Question[] }[]
}

function readRequest(body: RequestBody): Request {
  body.int32() // the replica that asks
  const [waitMs, least, most] = [body.int32(), body.int32(), body.int32()]
  body.int8() // the isolation level: there are no transactions
  if (body.version >= 7) body.int64() // the session's id and epoch: there are no sessions
  const topics = body.array(() => {
    const topic = body.version >= BY_ID ? body.uuid() : body.string()
    const name = (context: Context): string | undefined =>
      body.version >= BY_ID ? context.topics.byId(topic)?.name : topic
    return { topic, name, partitions: body.array(() => readQuestion(body)) }
  })
  return { waitMs, least, most, topics }
}

function readQuestion(body: RequestBody): Question {
  const partition = body.int32()
  if (body.version >= 9) body.int32() // the leader's epoch as the client knows it
  const offset = body.int64()
  if (body.version >= 12) body.int32() // the epoch of the record fetched last
  if (body.version >= 5) body.int64() // where a replica's log starts
  return { partition, offset, mostBytes: body.int32() }
}

function look(context: Context, topics: Request['topics'], most: number): Findings[] {
  let left = most
  let empty = true
  return topics.map(({ topic, name, partitions }) => ({
    topic,
    partitions: partitions.map((question) => {
      const limit = Math.min(question.mostBytes, Math.max(0, left))
      const found = read(context, { name: name(context), ...question, mostBytes: limit, atLeastOne: empty })
      left -= found.bytes.length
      empty &&= found.bytes.length === 0
      return found
    }),
  }))
}

function read({ topics }: Context, question: Question & { name: string | undefined; atLeastOne: boolean }): Finding {
  const { name, partition, offset, mostBytes, atLeastOne } = question
  const nothing = { partition, end: -1n, start: -1n, bytes: Buffer.alloc(0) }
  if (name === undefined) return { ...nothing, errorCode: errorCode.UNKNOWN_TOPIC_ID }
  const log = topics.log(name, partition)
  if (log === undefined) return { ...nothing, errorCode: errorCode.UNKNOWN_TOPIC_OR_PARTITION }
  if (log.fault !== 0) return { ...nothing, errorCode: log.fault }
  if (!log.hasLeader) return { ...nothing, errorCode: errorCode.NOT_LEADER_OR_FOLLOWER }
  if (offset < log.start || offset > log.end) return { ...nothing, errorCode: errorCode.OFFSET_OUT_OF_RANGE }
  const bytes = log.read(offset, mostBytes, atLeastOne)
  return { partition, errorCode: errorCode.NONE, end: log.end, start: log.start, bytes }
}

function isEnough(found: Findings[], least: number): boolean {
  const partitions = found.flatMap((topic) => topic.partitions)
  const size = partitions.reduce((sum, { bytes }) => sum + bytes.length, 0)
  return size >= Math.max(1, least) || partitions.some((partition) => partition.errorCode !== 0)
}

function answer(code: number, found: Findings[]): Answer {
  return (response) => {
    response.int32(0)
    if (response.version >= 7) response.int16(code).int32(0)
    response.array(found, ({ topic, partitions }) => {
      if (response.version >= BY_ID) response.uuid(topic)
      else response.string(topic)
      response.array(partitions, ({ partition, errorCode: problem, end, start, bytes }) => {
        response.int32(partition).int16(problem).int64(end).int64(end)
        if (response.version >= 5) response.int64(start)
        response.array([], () => undefined)
        if (response.version >= 11) response.int32(-1)
        response.bytes(bytes)
      })
    })
  }
}
