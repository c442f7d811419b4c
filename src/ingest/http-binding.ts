// The CloudEvents HTTP binding: a request in binary, structured or batched content mode becomes the records that the Kafka binding
// would have carried, so that the same verdict decides about them. Only what cannot be written as records is an error here; an
// event that lacks an attribute, say, is quarantined like its like from Kafka.
//
// Of the request's own headers a record keeps the attributes, the content type and the trace context, never a credential.
import { HubError } from '../base/errors.ts'
import type { Fault } from '../base/errors.ts'
import type { IncomingRecord } from '../event/record.ts'
import { factTopic, isSource } from '../event/source.ts'
import { readEnvelope } from './json-event.ts'
import { parseJsonText, partsOf } from '../base/json-text.ts'
import type { JsonText } from '../base/json-text.ts'

export interface EventRequest {
  /** Names and values by turns, as `IncomingMessage.rawHeaders` has them. */
  rawHeaders: readonly string[]
  body: Buffer
  /** The most events of a batch. */
  maxEvents: number
  /** The deepest nesting of a JSON body, its outermost value counted. */
  maxDepth: number
}

/**
 * The records of a request, in its order; none for an empty batch. Their data may share the body's memory. Throws a HubError:
 * `unsupported_media_type` where it is no CloudEvents request that the hub can read, `payload_too_large` for too many events,
 * `invalid_request` with every fault's JSON pointer for a body that is broken as a whole or in one of its envelopes.
 */
export function parseHttpEvents({ rawHeaders, body, maxEvents, maxDepth }: EventRequest): IncomingRecord[] {
  const headers = lowerCased(rawHeaders)
  refuseEncoding(headers)
  const contentType = headers.find(({ name }) => name === 'content-type')?.value ?? ''
  const trace = headers.filter(({ name }) => name === 'traceparent' || name === 'tracestate').map(asRecordHeader)
  switch (mediaType(contentType)) {
    case 'application/cloudevents+json':
      return structured(jsonOf(body, contentType, maxDepth), trace)
    case 'application/cloudevents-batch+json':
      return batched(jsonOf(body, contentType, maxDepth), trace, maxEvents)
    default:
      return [binary(headers, body, trace)]
  }
}

interface HttpHeader {
  name: string
  /** As Node decodes it: one character a byte. */
  value: string
}

type RecordHeaders = IncomingRecord['headers']

function lowerCased(rawHeaders: readonly string[]): HttpHeader[] {
  const headers: HttpHeader[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    headers.push({ name: rawHeaders[at]!.toLowerCase(), value: rawHeaders[at + 1]! })
  }
  return headers
}

/** The body is stored as it is, and nobody could tell later that it was compressed. */
function refuseEncoding(headers: HttpHeader[]): void {
  const encoding = headers.find(({ name, value }) => name === 'content-encoding' && value.toLowerCase() !== 'identity')
  if (encoding) throw unsupported('content-encoding', `is ${encoding.value}; events are taken unencoded only`)
}

function unsupported(header: string, message: string): HubError {
  return new HubError('unsupported_media_type', `${header} ${message}`, { faults: [{ path: header, message }] })
}

function mediaType(contentType: string): string {
  return contentType.split(';')[0]!.trim().toLowerCase()
}

function asRecordHeader({ name, value }: HttpHeader): RecordHeaders[number] {
  return [Buffer.from(name), Buffer.from(value, 'latin1')]
}

function jsonOf(body: Buffer, contentType: string, maxDepth: number): JsonText {
  const charset = /;\s*charset="?([^";\s]*)/i.exec(contentType)?.[1]?.toLowerCase() ?? 'utf-8'
  if (charset !== 'utf-8' && charset !== 'us-ascii') {
    throw unsupported('content-type', `has the charset ${charset}; JSON is read as UTF-8`)
  }
  const json = parseJsonText(body, maxDepth)
  if (typeof json === 'string') throw invalid([{ path: '', message: json }])
  return json
}

const MAX_FAULTS = 20

function invalid(faults: Fault[]): HubError {
  const [{ path, message }] = faults as [Fault, ...Fault[]]
  const where = path === '' ? 'the body' : path
  return new HubError('invalid_request', `${where} ${message}`, { faults: faults.slice(0, MAX_FAULTS) })
}

function structured({ bytes, root }: JsonText, trace: RecordHeaders): IncomingRecord[] {
  const { headers, value, faults } = readEnvelope(bytes, root, '')
  if (faults.length > 0) throw invalid(faults)
  return [recordOf([...headers, ...trace], value)]
}

function batched({ bytes, root }: JsonText, trace: RecordHeaders, maxEvents: number): IncomingRecord[] {
  if (bytes[root.start] !== OPENING_BRACKET)
    throw invalid([{ path: '', message: 'must be a JSON array of CloudEvents' }])
  const events = partsOf(bytes, root)
  if (events.length > maxEvents) {
    throw new HubError('payload_too_large', `A batch has at most ${maxEvents} events; this one has ${events.length}`)
  }
  const envelopes = events.map((span, at) => readEnvelope(bytes, span, `/${at}`))
  const faults = envelopes.flatMap((envelope) => envelope.faults)
  if (faults.length > 0) throw invalid(faults)
  return envelopes.map(({ headers, value }) => recordOf([...headers, ...trace], value))
}

const OPENING_BRACKET = 0x5b

/** An empty body is an event without data: HTTP has no other way to say so. */
function binary(headers: HttpHeader[], body: Buffer, trace: RecordHeaders): IncomingRecord {
  const attributes = headers.filter(({ name }) => name.startsWith('ce-'))
  const contentType = headers.filter(({ name }) => name === 'content-type')
  if (
    attributes.length === 0 ||
    contentType.some(({ value }) => mediaType(value).startsWith('application/cloudevents'))
  ) {
    throw unsupported('content-type', NOT_CLOUDEVENTS)
  }
  const sent: RecordHeaders = [
    ...attributes.map(({ name, value }): RecordHeaders[number] => [Buffer.from(name), decoded(value)]),
    ...contentType.map(({ value }) => asRecordHeader({ name: 'ce-datacontenttype', value })),
  ]
  return recordOf([...sent, ...trace], body.length === 0 ? null : body)
}

const NOT_CLOUDEVENTS =
  'is no CloudEvents format that is read here: send application/cloudevents+json, application/cloudevents-batch+json, ' +
  "or the data itself with the event's attributes in ce-* headers"

/** A header's value as the binding writes it: perhaps a quoted string, then percent-encoded once. May turn out not to be UTF-8. */
function decoded(value: string): Buffer {
  const plain = /^"(?:[^"\\]|\\.)*"$/.test(value) ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value
  const bytes = plain.replaceAll(/%([0-9a-f]{2})/gi, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  )
  return Buffer.from(bytes, 'latin1')
}

function recordOf(headers: RecordHeaders, value: Buffer | null): IncomingRecord {
  return { topic: topicOf(headers), position: null, timestamp: null, key: null, headers, value }
}

/** The topic that the event would have been written to, so that its source agrees with it; '' where its source could not be one. */
function topicOf(headers: RecordHeaders): string {
  const source = headers.find(([key]) => key?.equals(SOURCE))?.[1]?.toString() ?? ''
  return isSource(source) ? factTopic(source) : ''
}

const SOURCE = Buffer.from('ce-source')
