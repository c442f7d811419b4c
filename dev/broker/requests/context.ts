// What every request handler is given, and what it gives back.
import type { RequestBody, ResponseBody } from '../body.ts'
import type { Faults } from '../faults.ts'
import type { Groups } from '../groups.ts'
import type { Topics } from '../topics.ts'

export interface Context {
  topics: Topics
  groups: Groups
  faults: Faults
  /** Where clients reach this broker. */
  host: string
  port: () => number
  /** Resolves when records have been appended anywhere, or after `ms`. */
  appended: (ms: number) => Promise<void>
  /** Wakes who waits for that. */
  announce: () => void
}

export type Answer = (response: ResponseBody) => void

/** Reads the request from its body and carries it out; null: it wants no answer. */
export type Serve = (body: RequestBody, context: Context) => Promise<Answer | null>

/** The protocol's error codes that this broker gives. */
export const errorCode = {
  NONE: 0,
  OFFSET_OUT_OF_RANGE: 1,
  UNKNOWN_TOPIC_OR_PARTITION: 3,
  LEADER_NOT_AVAILABLE: 5,
  NOT_LEADER_OR_FOLLOWER: 6,
  INVALID_TOPIC: 17,
  TOPIC_ALREADY_EXISTS: 36,
  UNSUPPORTED_FOR_MESSAGE_FORMAT: 43,
  UNKNOWN_TOPIC_ID: 100,
} as const

/** The broker's number in the cluster, of which it is all. */
export const NODE = 1
