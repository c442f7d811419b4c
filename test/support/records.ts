// Records as they come from the wire: a plain valid one to start from, and random spoilt ones that come back the same for the same seed.
import type { IncomingRecord } from '../../src/event/record.ts'

export type Header = IncomingRecord['headers'][number]

/** The attributes of the plain event, in the order in which producers write them. */
export const plainAttributes = {
  specversion: '1.0',
  id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
  source: 'lender',
  type: 'studio.lerian.lender.loan_application.approved',
  time: '2026-05-14T13:47:30.123456789Z',
  schemaversion: '1.0.0',
  resourcetype: 'loan_application',
  eventtype: 'approved',
  tenantid: 'acme',
}

/** A record with the plain event's attributes, changed or (undefined) left out as told, and any more headers behind them. */
export function recordWith(
  attributes: Record<string, string | null | undefined> = {},
  rest: Partial<IncomingRecord> = {},
): IncomingRecord {
  const headers = Object.entries({ ...plainAttributes, ...attributes })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => header(`ce-${name}`, value ?? null))
  return { ...shell, ...rest, headers: [...headers, ...(rest.headers ?? [])] }
}

const shell = {
  topic: 'lerian.streaming.lender',
  position: { partition: 3, offset: 41n },
  timestamp: 1_778_766_450_123,
  key: Buffer.from('acme'),
  value: Buffer.from('{"ok":true}'),
}

export function header(key: string, value: string | Buffer | null): Header {
  return [Buffer.from(key), bytesOf(value)]
}

function bytesOf(value: string | Buffer | null): Buffer | null {
  return typeof value === 'string' ? Buffer.from(value) : value
}

/** A valid record with none to a few random faults, among them any bytes anywhere. */
export function spoiltRecord(random: () => number): IncomingRecord {
  const record = recordWith(pick(BEGINNINGS, random))
  for (let faults = Math.floor(random() * 4); faults > 0; faults--) pick(SPOILERS, random)(record, random)
  return record
}

const BEGINNINGS = [
  {},
  {},
  { subject: 'loan-42', datacontenttype: 'application/json', priority: 'high' },
  { systemevent: 'true' },
]

type Spoiler = (record: IncomingRecord, random: () => number) => void

const SPOILERS: readonly Spoiler[] = [
  (record, random) => void record.headers.splice(placeIn(record, random), 1),
  (record, random) => replace(record, random, ([, value]) => [value, value]),
  (record, random) => replace(record, random, ([key]) => [key, bytesOf(pick(TELLING_VALUES, random))]),
  (record, random) => replace(record, random, ([key]) => [key, randomBytes(random)]),
  (record, random) => replace(record, random, ([key, value]) => [key, changedByte(value, random)]),
  (record, random) => replace(record, random, ([key, value]) => [changedByte(key, random), value]),
  (record, random) =>
    replace(record, random, ([key, value]) => [key, value && Buffer.concat([value, randomBytes(random)])]),
  (record, random) =>
    replace(record, random, ([key, value]) => [key, value?.subarray(0, random() * value.length) ?? null]),
  (record, random) => void record.headers.push([...pick(record.headers.length > 0 ? record.headers : [none], random)]),
  (record, random) => void record.headers.push(header(pick(TELLING_KEYS, random), pick(TELLING_VALUES, random))),
  (record, random) => void record.headers.push([randomBytes(random), randomBytes(random)]),
  (record, random) => void record.headers.sort(() => random() - 0.5),
  (record, random) =>
    void (record.topic = pick(['', 'lerian.streaming.matcher', 'lerian.streaming.lender.dlq', '\u0000'], random)),
  (record, random) => void (record.value = random() < 0.5 ? null : randomBytes(random)),
  (record, random) => void (record.value = random() < 0.05 ? Buffer.alloc(1_048_577) : Buffer.alloc(0)),
]

const none: Header = [null, null]

const TELLING_KEYS = [
  'ce-',
  'ce',
  'ce-__proto__',
  'ce-constructor',
  'ce-toString',
  'ce-id',
  'CE-ID',
  'ce_id',
  'ce-subject',
  'ce-systemevent',
  'ce-tenantid',
  'ce-datacontenttype',
  'ce-dataschema',
  'ce-\u0000',
  'ce-región',
  'traceparent',
  'tracestate',
  '',
]

const TELLING_VALUES = [
  null,
  '',
  ' ',
  'true',
  'false',
  '1.0',
  'lender',
  'x'.repeat(257),
  'é'.repeat(600),
  '\u0000',
  '\u0085',
  '\u202e',
  '\ufeff',
  '🏦',
  '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
  '0197A1B2-C3D4-7E5F-8A9B-0C1D2E3F4A5C',
  '2026-02-30T00:00:00Z',
  'v2',
]

function pick<T>(from: readonly T[], random: () => number): T {
  return from[Math.floor(random() * from.length)]!
}

function placeIn(record: IncomingRecord, random: () => number): number {
  return Math.floor(random() * record.headers.length)
}

function replace(record: IncomingRecord, random: () => number, change: (header: Header) => Header): void {
  const place = placeIn(record, random)
  const found = record.headers[place]
  if (found) record.headers[place] = change(found)
}

function changedByte(bytes: Buffer | null, random: () => number): Buffer | null {
  if (!bytes?.length) return randomBytes(random)
  const changed = Buffer.from(bytes)
  changed[Math.floor(random() * changed.length)] = Math.floor(random() * 256)
  return changed
}

function randomBytes(random: () => number): Buffer {
  const length = Math.floor(random() ** 12 * 3000)
  return Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)))
}
