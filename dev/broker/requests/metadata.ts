// Metadata, and what is asked before it: which requests are served, and who coordinates a group. All answers name this one broker.
import type { ResponseBody } from '../body.ts'
import type { Topic } from '../topics.ts'
import { errorCode, NODE, type Serve } from './context.ts'

const CLUSTER = 'development-broker'
/** "Not asked for", where a client may ask what it is allowed to do. */
const NO_OPERATIONS = -2147483648

const NO_ID = '00000000-0000-0000-0000-000000000000'

export const metadata: Serve = async (body, context) => {
  const { version } = body
  const asked = body.nullableArray(() => {
    const id = version >= 10 ? body.uuid() : NO_ID
    return { id, name: body.nullableString() }
  })
  const mayCreate = body.boolean()
  const names = asked?.map(({ id, name }) => name ?? context.topics.byId(id)?.name ?? '')
  if (mayCreate) for (const name of names ?? []) if (context.topics.isLegal(name)) context.topics.create(name)
  const wanted = names ?? context.topics.all().map(({ name }) => name)
  return (response) => {
    response.int32(0)
    response.array([NODE], (id) => response.int32(id).string(context.host).int32(context.port()).string(null))
    response.string(CLUSTER).int32(NODE)
    response.array(wanted, (name) => writeTopic(response, name, context.topics.get(name)))
    if (version >= 8 && version <= 10) response.int32(NO_OPERATIONS)
  }
}

function writeTopic(response: ResponseBody, name: string, topic: Topic | undefined): void {
  response.int16(topic === undefined ? errorCode.UNKNOWN_TOPIC_OR_PARTITION : errorCode.NONE).string(name)
  if (response.version >= 10) response.uuid(topic?.id ?? NO_ID)
  response.boolean(false)
  response.array(topic?.partitions ?? [], (log, index) => {
    response.int16(log.hasLeader ? errorCode.NONE : errorCode.LEADER_NOT_AVAILABLE).int32(index)
    response.int32(log.hasLeader ? NODE : -1)
    if (response.version >= 7) response.int32(0)
    response.int32s([NODE]).int32s([NODE])
    if (response.version >= 5) response.int32s([])
  })
  if (response.version >= 8) response.int32(NO_OPERATIONS)
}

export const findCoordinator: Serve = async (body, context) => {
  body.string() // the group: there is one coordinator for all
  const fault = context.faults.next(FIND_COORDINATOR)
  return (response) => {
    response.int32(0).int16(fault).string(null).int32(NODE).string(context.host).int32(context.port())
  }
}

const FIND_COORDINATOR = 10
