// An event as the CloudEvents HTTP binding has it. Binary mode: the stored bytes are the body, the attributes are headers.
// Structured mode: one JSON envelope, in which data that is JSON stands byte for byte as it was stored (reading and writing it
// anew would change big numbers, duplicate keys and escapes), and all other data as base64. Either way no byte is lost.
import type { Event } from '../../event/event.ts'
import { contentTypeOf, hasJsonData } from '../../event/json-data.ts'
import type { ContentMode } from '../../event/subscription.ts'

export interface EncodedEvent {
  /** `content-type`, and in binary mode one `ce-*` for each attribute. */
  headers: Record<string, string>
  body: Buffer
}

/** An event without data is always structured: a webhook must have a body. */
export function encodeEvent(event: Event, mode: ContentMode): EncodedEvent {
  return event.data === null || mode === 'structured' ? encodeStructured(event) : encodeBinary(event, event.data)
}

function encodeBinary(event: Event, data: Buffer): EncodedEvent {
  const headers: Record<string, string> = { 'content-type': percentEncode(contentTypeOf(event), OUTSIDE_ASCII) }
  for (const [name, value] of attributesOf(event)) {
    if (name !== 'datacontenttype') headers[`ce-${name}`] = percentEncode(value, ENCODED_IN_HEADERS)
  }
  return { headers, body: data }
}

function encodeStructured(event: Event): EncodedEvent {
  const attributes = JSON.stringify(Object.fromEntries(attributesOf(event)))
  const headers = { 'content-type': 'application/cloudevents+json' }
  if (event.data === null) return { headers, body: Buffer.from(attributes) }
  const member = hasJsonData(event)
    ? [',"data":', event.data, '}']
    : [`,"data_base64":"${event.data.toString('base64')}"}`]
  const parts = [attributes.slice(0, -1), ...member].map((part) => Buffer.from(part))
  return { headers, body: Buffer.concat(parts) }
}

/** Those with a CloudEvents name; `data` is one, but means the body in an envelope. */
function attributesOf(event: Event): [string, string][] {
  return Object.entries(event.attributes).filter(([name]) => /^[a-z0-9]+$/.test(name) && name !== 'data')
}

/** By the binding: space, double quote, percent, and all that is not printable ASCII. */
const ENCODED_IN_HEADERS = /[^\x21\x23\x24\x26-\x7e]+/g
const OUTSIDE_ASCII = /[^\x20-\x7e]+/g

function percentEncode(value: string, encoded: RegExp): string {
  return value.replace(encoded, (run) => Buffer.from(run).toString('hex').toUpperCase().replace(/../g, '%$&'))
}
