// A run: requests made from the API's own document, sent to a hub that runs, each answer judged. The same seed makes the same requests;
// each that was answered wrongly is told as a command that sends it again.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import * as fc from 'fast-check'
import { Agent, request as send } from 'undici'
import { startProducer } from '../../dev/sample-producer.ts'
import { startReceiver } from '../../dev/sample-receiver.ts'
import type { RunningHub } from '../support/hub.ts'
import { Judge, type Answer, type Document, type Response } from './answers.ts'
import { wishes, type Operation, type Tenant, type Wish } from './requests.ts'
import { Stock } from './stock.ts'
import type { Given, Schema } from './values.ts'

export interface PropertyRunOptions {
  requests: number
  seed: number
}

export interface PropertyReport {
  /** Of each operation, how many answers there were of each status. */
  answers: Map<string, Map<number, number>>
  /** With how to send the request again. */
  complaints: { operation: string; complaint: string; curl: string }[]
}

const AT_ONCE = 4
const TENANTS: readonly Tenant[] = ['a', 'b']

/** What a hub needs to be run through: it is open to everybody, and delivers to this machine. */
export const PROPERTY_HUB = {
  STREAMING_HUB_ENV: 'local',
  STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
}

/** `hub` has been started with `PROPERTY_HUB` and the development broker. */
export async function runProperties(
  { url, lines }: RunningHub,
  { requests, seed }: PropertyRunOptions,
): Promise<PropertyReport> {
  await using running = new AsyncDisposableStack()
  const receiver = await startReceiver({ port: 0, onArrival: () => undefined })
  running.defer(() => receiver.stop())
  const agent = new Agent({ connections: AT_ONCE * 2 })
  running.defer(() => agent.close())
  const document = await readDocument(url)
  const report: PropertyReport = { answers: new Map(), complaints: [] }
  const playing: Playing = { url, agent, report, stock: new Stock(), judge: new Judge(document) }
  const play = async (wish: Wish): Promise<Answer> => await playOne(wish, playing)
  const operations = operationsOf(document)
  await provide(operations, { receiver: receiver.url, brokers: brokersIn(lines), play })
  const queue = fc.sample(wishes(operations, givenTo(receiver.url)), { numRuns: requests, seed }).values()
  const work = async (): Promise<void> => {
    for (const wish of queue) await play(wish)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return report
}

/** As the hub says it when it has started. */
function brokersIn(lines: readonly string[]): string[] {
  const found = /^ *Kafka +(\S+)/m.exec(lines.join('\n'))?.[1]
  assert(found, lines.join('\n'))
  return [found]
}

async function readDocument(url: string): Promise<Document> {
  const { body } = await send(`${url}/openapi.json`)
  return (await body.json()) as Document
}

interface Described {
  operationId: string
  parameters?: Operation['parameters']
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema }> }
  responses: Record<string, Response>
}

function operationsOf({ paths }: Document): Operation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods as unknown as Record<string, Described>).map(
      ([method, { operationId, parameters = [], requestBody }]) => {
        const [first] = Object.values(requestBody?.content ?? {})
        const { required = false, content = {} } = requestBody ?? {}
        const body = first ? { types: Object.keys(content), schema: first.schema, required } : null
        return {
          method: method.toUpperCase(),
          path,
          operationId,
          parameters,
          body: operationId === 'ingest' ? EVENT : body,
        }
      },
    ),
  )
}

const CONSTANT = {
  specversion: '1.0',
  source: 'lender',
  type: 'studio.lerian.lender.loan.approved',
  resourcetype: 'loan',
  eventtype: 'approved',
}

/** An event in structured mode; the document leaves bodies of ingest open. */
const EVENT: Operation['body'] = {
  types: ['application/cloudevents+json'],
  required: true,
  schema: {
    type: 'object',
    required: ['specversion', 'id', 'source', 'type', 'time', 'schemaversion', 'resourcetype', 'eventtype', 'tenantid'],
    properties: {
      ...Object.fromEntries(Object.entries(CONSTANT).map(([name, value]) => [name, { const: value }])),
      id: { type: 'string', pattern: '^0197[0-9a-f]{4}-[0-9a-f]{4}-7[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$' },
      time: { type: 'string', format: 'date-time' },
      schemaversion: { enum: ['1.0.0', 'v2', '3.1'] },
      tenantid: { enum: [...TENANTS] },
      data: {},
    },
  },
}

/** Addresses that a run may name: the receiver, one where nobody listens, and some that are refused. Nothing else is ever called. */
function givenTo(receiver: string): Given {
  const addresses = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(receiver, `${receiver}hooks?x=1`, 'http://127.0.0.1:1/') },
    {
      weight: 1,
      arbitrary: fc.constantFrom('https://u:p@127.0.0.1/', 'ftp://127.0.0.1/', 'http:', '', '/', 'http://[::1'),
    },
  )
  return {
    url: addresses,
    token_url: addresses,
    sink_url: addresses,
    timeout: fc.constant('1s'),
    retry_schedule: fc.constantFrom(null, ['0s'], ['0s', '1s'], ['30s', '10h']),
    '?wait': fc.constantFrom('0s', '1s'),
    '?sink_url': addresses,
  }
}

interface Playing {
  url: string
  agent: Agent
  stock: Stock
  judge: Judge
  report: PropertyReport
}

async function playOne(wish: Wish, { url, agent, stock, judge, report }: Playing): Promise<Answer> {
  const { operation, tenant, body } = wish
  const path = stock.pathOf(wish)
  const headers = { ...wish.headers, 'x-tenant-id': tenant }
  const method = operation.method as 'GET'
  const response = await send(url + path, { method, headers, body, dispatcher: agent })
  const bytes = Buffer.from(await response.body.arrayBuffer())
  const answer: Answer = { status: response.statusCode, headers: response.headers, bytes }
  const sent = `${path} ${JSON.stringify(headers)} ${body?.toString() ?? ''}`
  const name = `${operation.method} ${operation.path}`
  const curl = curlOf(method, url + path, { headers, body })
  for (const complaint of judge.complaints(wish, sent, answer))
    report.complaints.push({ operation: name, complaint, curl })
  const counts = report.answers.get(name) ?? new Map<number, number>()
  report.answers.set(name, counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1))
  stock.take(wish, answer)
  return answer
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

function curlOf(method: string, url: string, { headers, body }: { headers: object; body: Buffer | null }): string {
  const given = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${String(value)}`)}`)
  const data = body ? [`--data-binary @<(echo ${body.toString('base64')} | base64 -d)`] : []
  return ['curl --path-as-is -g -i -X', method, quoted(url), ...given, ...data].join(' ')
}

interface Provider {
  receiver: string
  brokers: string[]
  play: (wish: Wish) => Promise<Answer>
}

/**
 * Something of everything for both tenants: subscriptions that are verified and one that fails, events, one for the quarantine, and a
 * producer's dead letter. Resolves when deliveries have been made.
 */
async function provide(operations: readonly Operation[], { receiver, brokers, play }: Provider): Promise<void> {
  const call = async (operationId: string, tenant: Tenant, value: object | null = null): Promise<Answer> => {
    const operation = operations.find((each) => each.operationId === operationId)
    assert(operation, operationId)
    const type = operation.body?.types[0] ?? ''
    const body = value && Buffer.from(JSON.stringify(value))
    const headers: Record<string, string> = body ? { 'content-type': type } : {}
    return await play({ operation, tenant, named: { of: 'own', pick: 0 }, query: [], headers, body })
  }
  for (const tenant of TENANTS) {
    for (const url of [receiver, receiver, 'http://127.0.0.1:1/']) {
      const sink = { kind: 'webhook', url, timeout: '1s' }
      await call('createSubscription', tenant, { name: tenant, event_types: ['*'], retry_schedule: ['0s'], sink })
    }
    await call('verifySubscription', tenant)
    await call('ingest', tenant, { ...anEvent(tenant, 0), time: 'never' })
    for (const n of [1, 2, 3]) await call('ingest', tenant, anEvent(tenant, n))
  }
  await writeDeadLetter(brokers)
  for (const list of ['listProducerDeadLetters', 'listDeliveries', 'listQuarantine'])
    await until(async () => countOf(await call(list, 'a')) > 0)
}

function anEvent(tenant: Tenant, n: number): Record<string, unknown> {
  const id = `01970000-0000-7000-8000-${tenant === 'a' ? '0' : '1'}${String(n).padStart(11, '0')}`
  const event = { id, time: '2026-01-01T00:00:00Z', schemaversion: '1.0.0', tenantid: tenant }
  return { ...event, ...CONSTANT }
}

const script = () => ({ resource: 'loan', event: 'approved', data: {} })

/** As a producer of facts whose name ends in `.dlq`: not a dead letter as it should be, and kept all the same. */
async function writeDeadLetter(brokers: string[]): Promise<void> {
  const sent = Promise.withResolvers<void>()
  const common = { brokers, source: 'lender.dlq', tenants: TENANTS, script, intervalMs: 1_000 }
  const producer = await startProducer({ ...common, onSent: () => sent.resolve() })
  await Promise.race([sent.promise, producer.finished])
  await producer.stop()
}

function countOf({ bytes }: Answer): number {
  return (JSON.parse(bytes.toString()) as { items: unknown[] }).items.length
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const limit = AbortSignal.timeout(30_000)
  while (!(await isSo())) await delay(100, undefined, { signal: limit })
}
