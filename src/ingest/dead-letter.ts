// Reads the headers of a producer's dead letter. Whoever wrote it was in trouble, so nothing is expected of it: a header that is
// absent, malformed, not UTF-8 or huge is a null or a cut text, and the record is kept all the same, with its raw headers beside
// what was read here. Every text that comes out can be stored and shown anywhere: cut, without NUL or lone surrogates.
import type { DeadLetterFields } from '../event/dead-letter.ts'
import type { IncomingRecord } from '../event/record.ts'
import { isRfc3339 } from '../event/rfc3339.ts'
import { cut } from '../base/quote.ts'

/** Reads headers of any content. Never throws. Of a header that came more than once the last one that can be read counts. */
export function readDeadLetter(headers: IncomingRecord['headers']): DeadLetterFields {
  const values = valuesOf(headers)
  const read = <T>(key: string, parse: (text: string) => T | null): T | null => lastOf(values.get(key) ?? [], parse)
  return {
    tenantId: read('ce-tenantid', name),
    eventId: read('ce-id', name),
    eventType: eventTypeOf(read('ce-resourcetype', name), read('ce-eventtype', name)) ?? read('ce-type', keyOf),
    eventSource: read('ce-source', name),
    sourceTopic: read('x-lerian-dlq-source-topic', name),
    sourcePartition: read('x-lerian-dlq-source-partition', wholeNumber(INT_MAX)),
    sourceOffset: read('x-lerian-dlq-source-offset', wholeNumber(Number.MAX_SAFE_INTEGER)),
    errorClass: read('x-lerian-dlq-error-class', name),
    errorMessage: read('x-lerian-dlq-error-message', message),
    causeKind: read('x-lerian-dlq-cause-kind', name),
    retryCount: read('x-lerian-dlq-retry-count', wholeNumber(INT_MAX)),
    firstFailureAt: read('x-lerian-dlq-first-failure-at', time),
    producerId: read('x-lerian-dlq-producer-id', name),
    payloadOmitted: read('x-lerian-dlq-payload-omitted', flag),
    payloadBytes: read('x-lerian-dlq-payload-bytes', wholeNumber(Number.MAX_SAFE_INTEGER)),
  }
}

const INT_MAX = 2 ** 31 - 1
/** Names and classes are filtered and counted by: 512 characters fit into an index's row, whatever bytes they take. */
const MAX_NAME = 512
const MAX_MESSAGE = 8192
/** No key that is read here is longer, and a huge one is not worth a string. */
const MAX_KEY_BYTES = 64

function valuesOf(headers: IncomingRecord['headers']): Map<string, string[]> {
  const values = new Map<string, string[]>()
  for (const [key, value] of headers) {
    if (key === null || value === null || key.length > MAX_KEY_BYTES) continue
    const found = key.toString('latin1')
    // A character has four bytes at most; what is cut off is in the raw headers.
    const text = value.subarray(0, 4 * MAX_MESSAGE).toString()
    const earlier = values.get(found)
    if (earlier) earlier.push(text)
    else values.set(found, [text])
  }
  return values
}

function lastOf<T>(texts: readonly string[], parse: (text: string) => T | null): T | null {
  for (const text of texts.toReversed()) {
    const value = parse(text)
    if (value !== null) return value
  }
  return null
}

/** As sent, where it prints: tenants are compared with what the API is asked for. */
function name(text: string): string | null {
  return text === '' ? null : cut(text, MAX_NAME)
}

function message(text: string): string | null {
  return text === '' ? null : cut(text, MAX_MESSAGE)
}

function eventTypeOf(resource: string | null, event: string | null): string | null {
  return resource === null || event === null ? null : cut(`${resource}.${event}`, MAX_NAME)
}

/** Of `studio.lerian.<source>.<resource>.<event>`. */
function keyOf(type: string): string | null {
  const [, key] = /^studio\.lerian\.[^.]+\.([^.]+\.[^.]+)$/.exec(type) ?? []
  return key === undefined ? null : name(key)
}

function wholeNumber(most: number): (text: string) => number | null {
  return (text) => {
    const number = /^\s*\+?\d{1,20}\s*$/.test(text) ? Number(text) : Infinity
    return number <= most ? number : null
  }
}

function flag(text: string): boolean | null {
  const word = text.trim().toLowerCase()
  if (word === 'true' || word === '1') return true
  return word === 'false' || word === '0' ? false : null
}

/** RFC 3339, also with a space for the T or without an offset (UTC then), or a Unix time in seconds or milliseconds. */
function time(text: string): Date | null {
  const trimmed = text.trim()
  if (/^\d{10}$/.test(trimmed)) return new Date(Number(trimmed) * 1000)
  if (/^\d{13}$/.test(trimmed)) return new Date(Number(trimmed))
  const dated = trimmed.replace(/^(\d{4}-\d\d-\d\d) /, '$1T')
  const full = isRfc3339(dated) ? dated : `${dated}Z`
  if (!isRfc3339(full)) return null
  // A leap second, which Date does not know, is the second before it. Before 1970 is a clock, or a variable, that was never set.
  const at = Date.parse(full.replace(/:60(?=[.Zz+-])/, ':59').toUpperCase())
  return at >= 0 ? new Date(at) : null
}
