// What an error of the Kafka library says: the protocol's codes inside it, the response that came with it, and a sentence for a
// person. The library throws for any error code in a response, also where most of the response is good.
import { findErrorBy, protocolErrorsCodesById } from '@platformatic/kafka'
import { messageOf } from '../base/errors.ts'
import type { KafkaRequests } from './requests.ts'

/** The protocol's error codes that are acted on here. */
export const code = {
  OFFSET_OUT_OF_RANGE: 1,
  COORDINATOR_LOAD_IN_PROGRESS: 14,
  COORDINATOR_NOT_AVAILABLE: 15,
  NOT_COORDINATOR: 16,
  ILLEGAL_GENERATION: 22,
  UNKNOWN_MEMBER_ID: 25,
  REBALANCE_IN_PROGRESS: 27,
  GROUP_AUTHORIZATION_FAILED: 30,
  UNSUPPORTED_SASL_MECHANISM: 33,
  ILLEGAL_SASL_STATE: 34,
  MEMBER_ID_REQUIRED: 79,
} as const

/** The coordinator no longer takes us for what we were: what we own may be others' already. */
export const EXPELLED = [code.UNKNOWN_MEMBER_ID, code.ILLEGAL_GENERATION]

/** The protocol's name for one of its error codes. */
export function nameOf(errorCode: number): string {
  return protocolErrorsCodesById[errorCode] ?? `error ${errorCode}`
}

/** Whether the broker answered with one of `codes`, for the whole request or for a part of it. */
export function hasCode(error: unknown, ...codes: number[]): boolean {
  return codes.some((wanted) => findErrorBy(error as Error, 'apiCode', wanted) !== null)
}

/** The response to `name` inside the error; null when the request got none. */
export function responseIn<Name extends keyof KafkaRequests>(
  error: unknown,
  _name: Name,
): KafkaRequests[Name]['response'] | null {
  const found = findErrorBy(error as Error, 'code', 'PLT_KFK_RESPONSE')
  return (found?.['response'] as KafkaRequests[Name]['response'] | undefined) ?? null
}

/** Whether the broker answered, if only to refuse. */
export function wasAnswered(error: unknown): boolean {
  return findErrorBy(error as Error, 'code', 'PLT_KFK_RESPONSE') !== null
}

/** Whether no answer came because of the connection: refused, closed, or too slow. */
export function isNetworkError(error: unknown): boolean {
  return findErrorBy(error as Error, 'code', 'PLT_KFK_NETWORK') !== null
}

/** The chain of causes as one line. It names hosts and mechanisms, never a password. */
export function sentence(error: unknown): string {
  const messages = [...chain(error)].map((message) => message.replace(/\.$/, ''))
  return [...new Set(messages)].join(': ')
}

function* chain(error: unknown): Generator<string> {
  const { errors, cause } = error as { errors?: unknown[]; cause?: unknown }
  yield messageOf(error)
  if (errors?.[0] !== undefined) yield* chain(errors[0])
  if (cause !== undefined) yield* chain(cause)
}
