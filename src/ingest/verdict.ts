// The verdict on one record: is it an event of a tenant (accept), a system event (drop), or neither (quarantine)? Pure, never
// throws, always exactly one answer, whatever the bytes. The order of the checks decides which reason a record with several
// faults gets: encoding and conflicts; what is missing; each attribute's own rule; agreement with the topic and between the
// attributes; the body's size; only then whether it is a system event, and after that whose event it is.
import { MAX_DATA_BYTES } from '../event/event.ts'
import type { Event } from '../event/event.ts'
import { isKeySegment } from '../event/event-key.ts'
import type { ReasonCode } from '../event/reason.ts'
import type { IncomingRecord } from '../event/record.ts'
import { isRfc3339 } from '../event/rfc3339.ts'
import { schemaMajor } from '../event/schema-version.ts'
import { factTopic, isSource } from '../event/source.ts'
import { describeUuid, isUuid7 } from '../event/uuid7.ts'
import { readHeaders } from './attributes.ts'
import type { RecordContext, RecordFault } from './attributes.ts'
import { cut, quoted } from '../base/quote.ts'

export type Verdict = { kind: 'accept'; event: Event } | { kind: 'drop' } | ({ kind: 'quarantine' } & RecordFault)

/**
 * Decides about one record. An accepted event shares the record's bytes (`data` is the record's value itself). Its `attributes`
 * have no prototype and no empty values; which extensions are fit to be passed on is the delivery's question.
 */
export function verdict(record: IncomingRecord): Verdict {
  const { headers, topic, value } = record
  const context = readHeaders(headers)
  if ('reason' in context) return quarantine(context)
  const { attributes } = context
  if (!isComplete(attributes)) return quarantine(missing(attributes, headers))
  const fault =
    brokenGrammar(attributes) ??
    unfitText(attributes, context.extensions) ??
    disagreement(attributes, topic) ??
    tooLarge(value)
  if (fault) return quarantine(fault)
  if (attributes['systemevent'] === 'true') return { kind: 'drop' }
  const tenantId = attributes['tenantid']
  if (tenantId === undefined) return quarantine(missingTenant(headers))
  const tenantFault = unfitTenant(tenantId)
  if (tenantFault) return quarantine(tenantFault)
  return { kind: 'accept', event: eventOf(context, attributes, { tenantId, data: value }) }
}

function quarantine({ reason, detail }: RecordFault): Verdict {
  return { kind: 'quarantine', reason, detail }
}

const REQUIRED = ['specversion', 'id', 'source', 'type', 'time', 'schemaversion', 'resourcetype', 'eventtype'] as const

type RequiredName = (typeof REQUIRED)[number]
type Attributes = Record<string, string>
type CompleteAttributes = Attributes & Record<RequiredName, string>

function isComplete(attributes: Attributes): attributes is CompleteAttributes {
  for (const name of REQUIRED) if (attributes[name] === undefined) return false
  return true
}

function missing(attributes: Attributes, headers: IncomingRecord['headers']): RecordFault {
  const names = REQUIRED.filter((name) => attributes[name] === undefined)
  const subject = names.map((name) => `ce-${name}`).join(', ')
  return {
    reason: 'missing_attribute',
    detail: `${subject} ${names.length === 1 ? 'is' : 'are'} missing${misspelt(names, headers)}`,
  }
}

function missingTenant(headers: IncomingRecord['headers']): RecordFault {
  const detail = `ce-tenantid is missing, and this is no system event${misspelt(['tenantid'], headers)}`
  return { reason: 'missing_tenant', detail }
}

/** Says which header was probably meant: the usual mistake is another binding's prefix, or the wrong case. */
function misspelt(names: readonly string[], headers: IncomingRecord['headers']): string {
  for (const [key, value] of headers) {
    const found = key?.toString('latin1') ?? ''
    const name = names.find((each) => [`ce${each}`, `cloudevents${each}`].includes(lettersOf(found)))
    if (name === undefined) continue
    if (found === `ce-${name}`) return `: its header has ${value ? 'an empty' : 'no'} value`
    return `: \`${cut(found, 40)}\` found where \`ce-${name}\` is read`
  }
  return ''
}

function lettersOf(key: string): string {
  return key.length > 64 ? '' : key.toLowerCase().replace(/[^a-z]/g, '')
}

interface Grammar {
  name: RequiredName
  accepts: (value: string) => boolean
  reason: ReasonCode
  expected: string
}

const SEGMENT = '1 to 128 letters, digits, hyphens and underscores'

/** In the order of the contract's table. `type` is not here: it is wrong only by disagreeing with the others. */
const GRAMMARS: readonly Grammar[] = [
  {
    name: 'specversion',
    accepts: (value) => value === '1.0',
    reason: 'unsupported_specversion',
    expected: '"1.0"',
  },
  { name: 'id', accepts: isUuid7, reason: 'invalid_id', expected: 'a UUID of version 7' },
  {
    name: 'source',
    accepts: isSource,
    reason: 'invalid_source',
    expected: 'one segment of lower-case letters, digits, hyphens and underscores, at most 223 bytes',
  },
  {
    name: 'time',
    accepts: isRfc3339,
    reason: 'invalid_time',
    expected: 'an RFC 3339 date-time with an offset, such as 2026-05-14T13:47:30.123Z',
  },
  {
    name: 'schemaversion',
    accepts: (value) => schemaMajor(value) !== null,
    reason: 'invalid_schemaversion',
    expected: 'a version such as 1.4.2, at most 64 bytes',
  },
  { name: 'resourcetype', accepts: isKeySegment, reason: 'invalid_resourcetype', expected: SEGMENT },
  { name: 'eventtype', accepts: isKeySegment, reason: 'invalid_eventtype', expected: SEGMENT },
]

function brokenGrammar(attributes: CompleteAttributes): RecordFault | null {
  for (const { name, accepts, reason, expected } of GRAMMARS) {
    const value = attributes[name]
    if (accepts(value)) continue
    const found = (name === 'id' && describeUuid(value)) || quoted(value)
    return { reason, detail: `ce-${name} is ${found}, expected ${expected}` }
  }
  return null
}

/** Free texts, and the most bytes of each. */
const TEXTS: readonly (readonly [name: string, maxBytes: number])[] = [
  ['systemevent', Infinity],
  ['subject', 1024],
  ['datacontenttype', 256],
  ['dataschema', 2048],
]

function unfitText(attributes: Attributes, extensions: readonly string[]): RecordFault | null {
  for (const [name, maxBytes] of TEXTS) {
    const value = attributes[name]
    if (value === undefined) continue
    if (isLonger(value, maxBytes)) {
      const detail = `ce-${name} has ${Buffer.byteLength(value)} bytes, expected at most ${maxBytes}`
      return { reason: 'attribute_too_long', detail }
    }
    if (CONTROL.test(value)) return controlCharacter(name, value)
  }
  for (const name of extensions) {
    const value = attributes[name] ?? ''
    if (CONTROL.test(value)) return controlCharacter(name, value)
  }
  return null
}

// Unicode's category Cc, which CloudEvents forbids in every string.
const CONTROL = /\p{Cc}/u

function controlCharacter(name: string, value: string): RecordFault {
  const detail = `ce-${cut(name, 60)} is ${quoted(value)}, expected no control character`
  return { reason: 'control_character', detail }
}

function isLonger(text: string, maxBytes: number): boolean {
  // No character of UTF-16 takes more than three bytes in UTF-8, so short texts need not be measured.
  return text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes
}

function disagreement(attributes: CompleteAttributes, topic: string): RecordFault | null {
  const { source, type, resourcetype, eventtype } = attributes
  if (topic !== factTopic(source)) {
    const detail = `ce-source is ${quoted(source, 60)}, but the topic is ${quoted(topic)}`
    return { reason: 'source_topic_mismatch', detail }
  }
  const expected = `studio.lerian.${source}.${resourcetype}.${eventtype}`
  if (type === expected) return null
  return { reason: 'type_mismatch', detail: `ce-type is ${quoted(type, 120)}, expected ${quoted(expected, 120)}` }
}

function tooLarge(value: Buffer | null): RecordFault | null {
  if (value === null || value.length <= MAX_DATA_BYTES) return null
  const detail = `the body has ${value.length} bytes, expected at most ${MAX_DATA_BYTES}`
  return { reason: 'payload_too_large', detail }
}

const MAX_TENANT_BYTES = 256

function unfitTenant(tenantId: string): RecordFault | null {
  const reason = 'invalid_tenant'
  if (isLonger(tenantId, MAX_TENANT_BYTES)) {
    const bytes = Buffer.byteLength(tenantId)
    return { reason, detail: `ce-tenantid has ${bytes} bytes, expected at most ${MAX_TENANT_BYTES}` }
  }
  if (CONTROL.test(tenantId))
    return { reason, detail: `ce-tenantid is ${quoted(tenantId)}, expected no control character` }
  if (tenantId.trim() === '')
    return { reason, detail: `ce-tenantid is ${quoted(tenantId)}, expected more than white space` }
  return null
}

function eventOf(
  { traceparent, tracestate }: RecordContext,
  attributes: CompleteAttributes,
  { tenantId, data }: Pick<Event, 'tenantId' | 'data'>,
): Event {
  const { source, resourcetype, eventtype } = attributes
  attributes.id = attributes.id.toLowerCase()
  return {
    tenantId,
    id: attributes.id,
    source,
    key: `${resourcetype}.${eventtype}`,
    resourceType: resourcetype,
    schemaMajor: schemaMajor(attributes.schemaversion)!,
    attributes,
    traceparent,
    tracestate,
    data,
  }
}
