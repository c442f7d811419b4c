// A sink that does what a script says, and remembers what it was given.
import type { AttemptRequest, Outcome, Sink } from '../../src/sinks/sink.ts'

export type Script = (attempt: AttemptRequest, signal: AbortSignal) => Outcome | Promise<Outcome>

export const delivered: Outcome = { kind: 'delivered', status: 200, response: Buffer.from('ok') }

export function failed(given: Partial<Extract<Outcome, { kind: 'failed' }>> = {}): Outcome {
  const detail = 'answered 500'
  const response = Buffer.from('no')
  return { kind: 'failed', errorClass: 'http_status', detail, status: 500, response, retryAfter: null, ...given }
}

/** Answers only when it is broken off. */
export const hanging: Script = async (_attempt, signal) => {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  return failed({ errorClass: 'aborted', status: null })
}

/** `attempts` are the requests in the order in which they began. */
export function scriptedSink(script: Script = () => delivered): Sink & { attempts: AttemptRequest[]; script: Script } {
  const attempts: AttemptRequest[] = []
  const sink = {
    attempts,
    script,
    deliver: async (attempt: AttemptRequest, signal: AbortSignal) => {
      attempts.push(attempt)
      return await sink.script(attempt, signal)
    },
    probe: async () => delivered,
    close: async () => undefined,
  }
  return sink
}
