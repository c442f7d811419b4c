// Produce: record batches are appended as they are. A topic that does not exist is made, as a broker with automatic topics does.
import { isFormatTwo } from '../log.ts'
import { errorCode, type Context, type Serve } from './context.ts'

interface Outcome {
  partition: number
  errorCode: number
  offset: bigint
  logStart: bigint
}

export const produce: Serve = async (body, context) => {
  body.nullableString() // the transaction, which there are none of
  const acks = body.int16()
  body.int32() // how long replicas may take, which there are none of
  const topics = body.array(() => {
    const name = body.string()
    const partitions = body.array(() => ({ partition: body.int32(), batches: body.bytes() }))
    return { name, outcomes: partitions.map(({ partition, batches }) => append(context, { name, partition, batches })) }
  })
  context.announce()
  if (acks === 0) return null
  return (response) => {
    response.array(topics, ({ name, outcomes }) => {
      response.string(name).array(outcomes, (outcome) => {
        response.int32(outcome.partition).int16(outcome.errorCode).int64(outcome.offset).int64(-1n)
        if (response.version >= 5) response.int64(outcome.logStart)
        if (response.version >= 8) response.array([], () => undefined).string(null)
      })
    })
    response.int32(0)
  }
}

function append(
  { topics, faults }: Context,
  { name, partition, batches }: { name: string; partition: number; batches: Buffer },
): Outcome {
  const refused = (code: number): Outcome => ({ partition, errorCode: code, offset: -1n, logStart: -1n })
  const fault = faults.next(PRODUCE)
  if (fault !== 0) return refused(fault)
  if (!topics.isLegal(name)) return refused(errorCode.INVALID_TOPIC)
  const log = topics.create(name).partitions[partition]
  if (log === undefined) return refused(errorCode.UNKNOWN_TOPIC_OR_PARTITION)
  if (log.fault !== 0) return refused(log.fault)
  if (!isFormatTwo(batches)) return refused(errorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
  return { partition, errorCode: errorCode.NONE, offset: log.append(batches), logStart: log.start }
}

const PRODUCE = 0
