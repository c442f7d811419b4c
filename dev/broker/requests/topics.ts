// Topics made and deleted by request, and the producer ids that an idempotent producer asks for before it writes.
import { errorCode, type Serve } from './context.ts'

export const createTopics: Serve = async (body, { topics }) => {
  const wanted = body.array(() => {
    const topic = { name: body.string(), partitions: body.int32() }
    body.int16() // the replication factor
    body.array(() => [body.int32(), body.int32s()]) // who is to hold which replica
    body.array(() => [body.string(), body.nullableString()]) // settings
    return topic
  })
  const outcomes = wanted.map(({ name, partitions }) => {
    if (!topics.isLegal(name)) return { name, code: errorCode.INVALID_TOPIC }
    if (topics.get(name) !== undefined) return { name, code: errorCode.TOPIC_ALREADY_EXISTS }
    topics.create(name, partitions)
    return { name, code: errorCode.NONE }
  })
  return (response) => {
    response.int32(0).array(outcomes, ({ name, code }) => response.string(name).int16(code).string(null))
  }
}

export const deleteTopics: Serve = async (body, { topics, groups }) => {
  const outcomes = body.array(() => {
    const name = body.string()
    groups.forgetTopic(name)
    return { name, code: topics.delete(name) ? errorCode.NONE : errorCode.UNKNOWN_TOPIC_OR_PARTITION }
  })
  return (response) => {
    response.int32(0).array(outcomes, ({ name, code }) => response.string(name).int16(code))
  }
}

let producers = 0n

/** The id is given out; sequence numbers are not checked. */
export const initProducerId: Serve = async () => {
  const id = ++producers
  return (response) => {
    response.int32(0).int16(errorCode.NONE).int64(id).int16(0)
  }
}
