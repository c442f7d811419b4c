// The consumer group requests, put to the coordinator in `groups.ts`.
import { refuseJoin } from '../groups.ts'
import type { Serve } from './context.ts'

const key = { JOIN: 11, HEARTBEAT: 12, SYNC: 14 }

export const joinGroup: Serve = async (body, { groups, faults }) => {
  const group = groups.get(body.string())
  const [sessionMs, rebalanceMs] = [body.int32(), body.int32()]
  const [memberId, instanceId] = [body.string(), body.nullableString()]
  body.string() // the kind of protocol
  const protocols = body.array(() => ({ name: body.string(), metadata: body.bytes() }))
  const fault = faults.next(key.JOIN)
  const request = { memberId, instanceId, sessionMs, rebalanceMs, protocols }
  const joined = fault === 0 ? await group.join(request) : refuseJoin(fault, memberId)
  return (response) => {
    response.int32(0).int16(joined.errorCode).int32(joined.generation)
    response.string(joined.protocol).string(joined.leader).string(joined.memberId)
    response.array(joined.members, (member) => {
      response.string(member.memberId).string(member.instanceId).bytes(member.metadata)
    })
  }
}

export const syncGroup: Serve = async (body, { groups, faults }) => {
  const group = groups.get(body.string())
  const generation = body.int32()
  const memberId = body.string()
  body.nullableString() // a static member's name
  const shares = body.array(() => ({ memberId: body.string(), assignment: body.bytes() }))
  const fault = faults.next(key.SYNC)
  const refused = { errorCode: fault, assignment: Buffer.alloc(0) }
  const answer = fault === 0 ? await group.sync(memberId, generation, shares) : refused
  return (response) => {
    response.int32(0).int16(answer.errorCode).bytes(answer.assignment)
  }
}

export const heartbeat: Serve = async (body, { groups, faults }) => {
  const group = groups.get(body.string())
  const generation = body.int32()
  const memberId = body.string()
  const code = faults.next(key.HEARTBEAT) || group.heartbeat(memberId, generation)
  return (response) => {
    response.int32(0).int16(code)
  }
}

export const leaveGroup: Serve = async (body, { groups }) => {
  const code = groups.get(body.string()).leave(body.string())
  return (response) => {
    response.int32(0).int16(code)
  }
}
