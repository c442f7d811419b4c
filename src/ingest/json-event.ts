// The CloudEvents JSON event format: an envelope of attributes and data becomes the same headers and value that the Kafka binding
// carries. What the attributes say is the verdict's business; a fault here is only what cannot be written as a record at all.
import type { Fault } from '../base/errors.ts'
import type { IncomingRecord } from '../event/record.ts'
import { HALF_A_PAIR, membersOf, pointerStep, textOf, type Span } from '../base/json-text.ts'

export interface Envelope {
  headers: IncomingRecord['headers']
  value: Buffer | null
  /** Every fault, by its JSON pointer; the envelope means nothing while there is one. */
  faults: Fault[]
}

/**
 * Reads the envelope at `span` of a valid JSON text; `path` is its JSON pointer. An attribute that is null has no value. `data` is
 * kept byte for byte where it is JSON (so null is data, and its absence is not); where `datacontenttype` says that it is not, the
 * characters of its string are the data.
 */
export function readEnvelope(bytes: Buffer, span: Span, path: string): Envelope {
  if (bytes[span.start] !== OPENING_BRACE) {
    return { headers: [], value: null, faults: [{ path, message: 'must be a CloudEvent, a JSON object' }] }
  }
  const members = membersOf(bytes, span)
  const attributes = members.filter(({ name }) => !BODIES.has(name))
  const bodies = members.filter(({ name }) => BODIES.has(name))
  const headers: IncomingRecord['headers'] = []
  const faults: Fault[] = []
  for (const { name, value } of attributes) {
    const read = name.isWellFormed() ? readAttribute(textOf(bytes, value)) : { fault: HALF_A_PAIR }
    if (isFault(read)) faults.push({ path: `${path}${pointerStep(name)}`, message: read.fault })
    else headers.push([Buffer.from(`ce-${name}`), read])
  }
  const data = readData(bytes, bodies, isJson(headers))
  if (!isFault(data)) return { headers, value: data, faults }
  return { headers, value: null, faults: [...faults, { path: `${path}/${bodies.at(-1)!.name}`, message: data.fault }] }
}

const BODIES: ReadonlySet<string> = new Set(['data', 'data_base64'])
const OPENING_BRACE = 0x7b

type Read = Buffer | null | { fault: string }

function isFault(read: Read): read is { fault: string } {
  return read !== null && 'fault' in read
}

function readAttribute(text: string): Read {
  if (text === 'null') return null
  if (text.startsWith('"')) return readString(text)
  // An integer of any length keeps its digits.
  if (text === 'true' || text === 'false' || /^-?[0-9]+$/.test(text)) return Buffer.from(text)
  return { fault: 'must be a string, a boolean, an integer or null' }
}

function readString(text: string): Read {
  const string = JSON.parse(text) as string
  return string.isWellFormed() ? Buffer.from(string) : { fault: HALF_A_PAIR }
}

/** Whether `data` is JSON: a subtype `json` or `…+json`, or no content type at all. */
function isJson(headers: IncomingRecord['headers']): boolean {
  const type = headers.find(([key]) => key?.equals(CONTENT_TYPE))?.[1]?.toString() ?? ''
  return type === '' || /^[^/;]*\/(?:[^/;]*\+)?json\s*(?:;|$)/i.test(type)
}

const CONTENT_TYPE = Buffer.from('ce-datacontenttype')

function readData(bytes: Buffer, bodies: { name: string; value: Span }[], isJsonData: boolean): Read {
  const [body, another] = bodies
  if (!body) return null
  if (another) return { fault: 'is not alone: an event has its data once, as data or as data_base64' }
  const text = textOf(bytes, body.value)
  if (body.name === 'data_base64') return text === 'null' ? null : readBase64(text)
  if (isJsonData) return bytes.subarray(body.value.start, body.value.end)
  return text.startsWith('"')
    ? readString(text)
    : { fault: 'must be a string, because its datacontenttype is not JSON' }
}

/** Decoding is lenient, so what was decoded is written again: only canonical base64 comes back. */
function readBase64(text: string): Read {
  const encoded = text.startsWith('"') ? (JSON.parse(text) as string) : null
  const decoded = Buffer.from(encoded ?? '', 'base64')
  return decoded.toString('base64') === encoded ? decoded : { fault: 'must be a string of base64 with its padding' }
}
