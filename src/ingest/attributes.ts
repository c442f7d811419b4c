// Reads a record's headers into CloudEvents attributes. Two faults are met here, in the order of the wire: a value that is not
// UTF-8, and one attribute with two different values. What the attributes say is judged in verdict.ts.
//
// An attribute without a value (null) or with an empty one counts as absent, extensions too; beside another value it is a conflict
// all the same, because nobody could say which of the two was meant. Not attributes, and ignored: the key `ce-` alone, for it names
// nothing, and keys that are not UTF-8 (every header of a quarantined record is kept as bytes anyway).
import { isUtf8 } from 'node:buffer'
import type { ReasonCode } from '../event/reason.ts'
import type { IncomingRecord } from '../event/record.ts'
import { isTraceparent, isTracestate } from '../event/trace-context.ts'
import { cut, hex, quoted } from '../base/quote.ts'

/** Why a record is no event: the code, and a sentence of at most 300 characters that any text column can hold. */
export interface RecordFault {
  reason: ReasonCode
  detail: string
}

/** What a record's headers say. */
export interface RecordContext {
  /** By name without the prefix, none of them empty. Without a prototype, so that no name (`__proto__`, `constructor`) is special. */
  attributes: Record<string, string>
  /** The names among them that the contract does not know. */
  extensions: readonly string[]
  /** Null where it is not a valid W3C trace context; `tracestate` also where `traceparent` is none. */
  traceparent: string | null
  tracestate: string | null
}

/** Reads headers of any content. Never throws. */
export function readHeaders(headers: IncomingRecord['headers']): RecordContext | RecordFault {
  const attributes: Record<string, string> = Object.create(null)
  const extensions: string[] = []
  let someAreEmpty = false
  for (const [key, value] of headers) {
    const name = key === null ? null : attributeName(key)
    if (name === null) continue
    if (value && !isUtf8(value)) return notUtf8(name, value)
    const text = value ? value.toString() : ''
    const earlier = attributes[name]
    if (earlier !== undefined && earlier !== text) return conflicting(name, earlier, text)
    attributes[name] = text
    if (text === '') someAreEmpty = true
    else if (earlier === undefined && !KNOWN_NAMES.has(name)) extensions.push(name)
  }
  if (someAreEmpty) deleteEmpty(attributes)
  const traceparent = traceHeader(headers, TRACEPARENT, isTraceparent)
  const tracestate = traceparent && traceHeader(headers, TRACESTATE, isTracestate)
  return { attributes, extensions, traceparent, tracestate }
}

const C = 0x63
const E = 0x65
const HYPHEN = 0x2d

// Nearly every key is one of these, and comparing bytes is cheaper than making a string for each key of each record.
const KNOWN_NAMES: ReadonlySet<string> = new Set([
  'specversion',
  'id',
  'source',
  'type',
  'time',
  'schemaversion',
  'resourcetype',
  'eventtype',
  'tenantid',
  'systemevent',
  'subject',
  'datacontenttype',
  'dataschema',
])
const KNOWN_BY_LENGTH = Map.groupBy(
  [...KNOWN_NAMES].map((name) => ({ name, key: Buffer.from(`ce-${name}`) })),
  ({ key }) => key.length,
)

/** The attribute that a header's key names; null where it names none. */
function attributeName(key: Buffer): string | null {
  if (key.length <= 3 || key[0] !== C || key[1] !== E || key[2] !== HYPHEN) return null
  for (const known of KNOWN_BY_LENGTH.get(key.length) ?? []) {
    if (isSame(key, known.key)) return known.name
  }
  return isUtf8(key) ? key.toString('utf8', 3) : null
}

/** Of two keys of one length: four times as fast as Buffer's own `equals` on so few bytes. */
function isSame(a: Buffer, b: Buffer): boolean {
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

function deleteEmpty(attributes: Record<string, string>): void {
  for (const name of Object.keys(attributes)) {
    if (attributes[name] === '') delete attributes[name]
  }
}

const TRACEPARENT = Buffer.from('traceparent')
const TRACESTATE = Buffer.from('tracestate')

/** A header that came more than once is read as the list of its values, as HTTP does: right for tracestate, none for traceparent. */
function traceHeader(
  headers: IncomingRecord['headers'],
  name: Buffer,
  isValid: (text: string) => boolean,
): string | null {
  let text: string | null = null
  for (const [key, value] of headers) {
    if (!value || key?.length !== name.length || !key.equals(name)) continue
    text = text === null ? value.toString('latin1') : `${text},${value.toString('latin1')}`
  }
  return text !== null && isValid(text) ? text : null
}

function notUtf8(name: string, value: Buffer): RecordFault {
  return { reason: 'not_utf8', detail: `ce-${cut(name, 60)} is not UTF-8: ${hex(value)}` }
}

function conflicting(name: string, earlier: string, later: string): RecordFault {
  const values =
    earlier === '' || later === '' ? `a value and no value` : `${quoted(earlier, 90)} and ${quoted(later, 90)}`
  return { reason: 'conflicting_attribute', detail: `ce-${cut(name, 60)} came twice, with ${values}` }
}
