// Offsets: where a log begins and ends, and how far a group has come.
import { errorCode, type Serve } from './context.ts'

const OFFSET_COMMIT = 8
const OFFSET_FETCH = 9
const EARLIEST = -2n

export const listOffsets: Serve = async (body, { topics }) => {
  body.int32() // the replica that asks
  body.int8() // the isolation level
  const asked = body.array(() => {
    const name = body.string()
    return {
      name,
      partitions: body.array(() => {
        const partition = body.int32()
        if (body.version >= 4) body.int32() // the leader's epoch
        const earliest = body.int64() === EARLIEST
        const log = topics.log(name, partition)
        const offset = (earliest ? log?.start : log?.end) ?? -1n
        return { partition, offset, code: log === undefined ? errorCode.UNKNOWN_TOPIC_OR_PARTITION : errorCode.NONE }
      }),
    }
  })
  return (response) => {
    response.int32(0).array(asked, ({ name, partitions }) => {
      response.string(name).array(partitions, ({ partition, offset, code }) => {
        response.int32(partition).int16(code).int64(-1n).int64(offset)
        if (response.version >= 4) response.int32(0)
      })
    })
  }
}

export const offsetCommit: Serve = async (body, { groups, faults }) => {
  const group = groups.get(body.string())
  const generation = body.int32()
  const memberId = body.string()
  body.nullableString() // a static member's name
  const topics = body.array(() => {
    const name = body.string()
    return {
      name,
      partitions: body.array(() => {
        const offset = { partition: body.int32(), offset: body.int64(), leaderEpoch: body.int32() }
        body.nullableString() // a note
        return offset
      }),
    }
  })
  const code = faults.next(OFFSET_COMMIT) || group.mayCommit(memberId, generation)
  for (const { name: topic, partitions } of topics) {
    for (const { partition, offset, leaderEpoch } of partitions) {
      if (code === 0) group.setOffset(topic, partition, { offset, leaderEpoch })
      faults.onCommit({ group: group.id, topic, partition, offset, memberId, generation, errorCode: code })
    }
  }
  return (response) => {
    response.int32(0).array(topics, ({ name, partitions }) => {
      response.string(name).array(partitions, ({ partition }) => response.int32(partition).int16(code))
    })
  }
}

export const offsetFetch: Serve = async (body, { groups, faults }) => {
  const group = groups.get(body.string())
  const topics = body.array(() => ({ name: body.string(), partitions: body.int32s() }))
  const code = faults.next(OFFSET_FETCH)
  return (response) => {
    response.int32(0).array(topics, ({ name, partitions }) => {
      response.string(name).array(partitions, (partition) => {
        const known = group.offset(name, partition)
        response
          .int32(partition)
          .int64(known?.offset ?? -1n)
          .int32(known?.leaderEpoch ?? -1)
        response.string('').int16(errorCode.NONE)
      })
    })
    response.int16(code)
  }
}
