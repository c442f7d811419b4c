// What stands between API clients and the replicas in a rolling restart, as plain as they come. Each replica is asked for /readyz every
// 250 ms, and is in rotation while its last answer was a 200. Requests go to those in rotation by turns, over kept connections. One
// whose connection is refused goes to the next replica, because nothing of it was sent; one that fails in any other way (a reset,
// a time-out, a status of 400 and above) has failed. So has one for which no replica is in rotation.
import { setTimeout as delay } from 'node:timers/promises'
import { Agent } from 'undici'
import { messageOf } from '../../src/base/errors.ts'

const LOOK_EVERY_MS = 250
const LOOK_LIMIT_MS = 1_000
const CONNECTIONS = 8

interface Call {
  method: 'GET' | 'POST'
  path: string
  headers: Record<string, string>
  body?: string
}

export interface Balancer {
  /** Replicas in rotation. */
  inRotation(): number
  /** What those that are not say of themselves. */
  problems(): string[]
  /** The answer's body; rejects when the request has failed, which is counted. */
  send(call: Call): Promise<string>
  counts: { requests: number; failed: number; retried: number }
  stop(): Promise<void>
}

export function startBalancer(targets: readonly string[]): Balancer {
  const agent = new Agent({ connections: CONNECTIONS, keepAliveTimeout: 60_000 })
  const probing = new Agent({ pipelining: 0 })
  const ready = new Set<string>()
  const problems = new Map<string, string>()
  const counts = { requests: 0, failed: 0, retried: 0 }
  const stopping = new AbortController()
  let turn = 0

  const look = async (target: string): Promise<void> => {
    while (!stopping.signal.aborted) {
      const limit = AbortSignal.timeout(LOOK_LIMIT_MS)
      const isReady = await probing.request({ origin: target, path: '/readyz', method: 'GET', signal: limit }).then(
        async ({ statusCode, body }) => {
          problems.set(target, await body.text())
          return statusCode === 200
        },
        (error: unknown) => {
          problems.set(target, messageOf(error))
          return false
        },
      )
      if (isReady) ready.add(target)
      else ready.delete(target)
      await delay(LOOK_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  }
  const looking = Promise.all(targets.map(look))

  const sendTo = async (target: string, call: Call): Promise<string> => {
    const { statusCode, body } = await agent.request({ origin: target, ...call, body: call.body ?? null })
    const text = await body.text()
    if (statusCode >= 400) throw new Error(`${call.path} was answered with ${statusCode}: ${text}`)
    return text
  }
  const send = async (call: Call): Promise<string> => {
    counts.requests++
    const rotation = targets.filter((target) => ready.has(target))
    const first = turn++
    for (let tries = 0; tries < rotation.length; tries++) {
      try {
        const answer = await sendTo(rotation[(first + tries) % rotation.length] ?? '', call)
        if (tries > 0) counts.retried++
        return answer
      } catch (error) {
        if ((error as { code?: unknown }).code === 'ECONNREFUSED') continue
        counts.failed++
        throw error
      }
    }
    counts.failed++
    throw new Error('no replica is in rotation')
  }
  return {
    inRotation: () => ready.size,
    problems: () =>
      targets.filter((target) => !ready.has(target)).map((target) => `${target}: ${problems.get(target)}`),
    send,
    counts,
    stop: async () => {
      stopping.abort()
      await looking
      await Promise.all([agent.destroy(), probing.destroy()])
    },
  }
}
