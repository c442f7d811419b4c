// The other side: destinations in moods that change over time. What a receiver took is written down here, whatever the hub gets
// to hear of it.
import type { Outcome } from '../../src/sinks/sink.ts'
import { delivered, failed } from '../support/scripted-sink.ts'

export type Mood =
  | { kind: 'healthy' }
  | { kind: 'down' }
  | { kind: 'refusing' }
  | { kind: 'gone' }
  /** Answers in this share of the time-out; from 1 on it is too late. */
  | { kind: 'slow'; share: number }
  | { kind: 'flapping'; failing: number }
  /** Takes everything, and this share of its answers is lost. */
  | { kind: 'lossy'; lost: number }
  | { kind: 'busy'; retryAfter: string }

export interface Answer {
  outcome: Outcome
  afterMs: number
  /** The receiver has the event. */
  took: boolean
}

const QUICK_MS = 20

/** What a receiver in `mood` does with one attempt. */
export function answer(mood: Mood, timeoutMs: number, random: () => number): Answer {
  const afterMs = random() < 0.7 ? 0 : Math.floor(random() * QUICK_MS)
  const timeout = failed({ errorClass: 'timeout', status: null })
  switch (mood.kind) {
    case 'healthy':
      return { outcome: delivered, afterMs, took: true }
    case 'down':
      return { outcome: failed(), afterMs, took: false }
    case 'refusing':
      return { outcome: failed({ errorClass: 'connection', status: null }), afterMs: 0, took: false }
    case 'gone':
      return { outcome: failed({ status: 410 }), afterMs, took: false }
    case 'slow':
      return mood.share < 1
        ? { outcome: delivered, afterMs: Math.floor(mood.share * timeoutMs), took: true }
        : { outcome: timeout, afterMs: timeoutMs, took: random() < 0.5 }
    case 'flapping':
      return random() < mood.failing
        ? { outcome: failed(), afterMs, took: false }
        : { outcome: delivered, afterMs, took: true }
    case 'lossy':
      return random() < mood.lost
        ? { outcome: timeout, afterMs: timeoutMs, took: true }
        : { outcome: delivered, afterMs, took: true }
    case 'busy':
      return { outcome: failed({ status: 503, retryAfter: mood.retryAfter }), afterMs, took: false }
    default:
      return mood satisfies never
  }
}
