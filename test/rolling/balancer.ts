// What stands between API clients and the replicas in a rolling restart, as plain as they come. Each replica is asked for /readyz every
// 250 ms. It is in rotation from a 200 until another answer, or until it cannot be reached; one that does not answer within two seconds is
// taken out when that has happened twice in a row. Requests go to those in rotation by turns, over kept connections. One
// whose connection is refused goes to the next replica, because nothing of it was sent; one that fails in any other way (a reset,
// a time-out, a status of 400 and above) has failed. So has one for which no replica is in rotation.
import { setTimeout as delay } from 'node:timers/promises'
import { Agent } from 'undici'
import { messageOf } from '../../src/base/errors.ts'

const LOOK_EVERY_MS = 250
const LOOK_LIMIT_MS = 2_000
const SILENCES = 2
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

/** `onFailure` is told why a request has failed. */
export function startBalancer(targets: readonly string[], onFailure: (reason: string) => void): Balancer {
  const agent = new Agent({ connections: CONNECTIONS, keepAliveTimeout: 60_000 })
  const probing = new Agent({ pipelining: 0 })
  const ready = new Set<string>()
  const problems = new Map<string, string>()
  const counts = { requests: 0, failed: 0, retried: 0 }
  const stopping = new AbortController()
  let turn = 0

  const look = async (target: string): Promise<void> => {
    for (let silences = 0; !stopping.signal.aborted;) {
      const answer = await readinessOf(target, probing)
      problems.set(target, answer.text)
      silences = answer.ready === null ? silences + 1 : 0
      if (answer.ready) ready.add(target)
      else if (answer.ready === false || silences >= SILENCES) ready.delete(target)
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
        onFailure(messageOf(error))
        throw error
      }
    }
    counts.failed++
    onFailure('no replica is in rotation')
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

/** `ready` null: it does not answer in time. */
async function readinessOf(target: string, agent: Agent): Promise<{ ready: boolean | null; text: string }> {
  const limit = AbortSignal.timeout(LOOK_LIMIT_MS)
  try {
    const { statusCode, body } = await agent.request({ origin: target, path: '/readyz', method: 'GET', signal: limit })
    return { ready: statusCode === 200, text: await body.text() }
  } catch (error) {
    return { ready: limit.aborted ? null : false, text: messageOf(error) }
  }
}
