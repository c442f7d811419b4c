// What `npm start` says to a person: where everything is, and how to see a first event arrive.
import { randomUUIDv7 } from 'node:crypto'

export interface WelcomeInfo {
  version: string
  /** The API's, without a slash at its end. */
  url: string
  docs: boolean
  brokers: readonly string[]
  /** The broker is the development broker, in memory. */
  developmentBroker: boolean
  /** Where the embedded PostgreSQL keeps its files; null: a database of somebody else. */
  databaseDirectory: string | null
  /** Nobody is asked for a credential. */
  open: boolean
  /** Whether this machine's own addresses may be destinations. */
  privateSinks: boolean
}

export function welcome(info: WelcomeInfo): string {
  return [
    `Streaming Hub ${info.version} is running.`,
    '',
    `  API         ${info.url}${info.docs ? `, described at ${info.url}/docs` : ''}`,
    `  Kafka       ${info.brokers.join(', ')}${info.developmentBroker ? ' (a development broker, in memory)' : ''}`,
    `  PostgreSQL  ${info.databaseDirectory ?? 'as configured'}`,
    ...(info.open
      ? ['', '  No authentication is configured: whoever reaches the API may do everything, as any tenant.']
      : []),
    '',
    ...firstEvent(info),
    '',
  ].join('\n')
}

function firstEvent(info: WelcomeInfo): string[] {
  const { privateSinks } = info
  const receiver = privateSinks ? 'http://127.0.0.1:9000/' : 'https://your-receiver.example/'
  const where = privateSinks
    ? 'Start a receiver in another terminal: npm run hub listen'
    : 'A receiver on this machine needs STREAMING_HUB_ALLOW_PRIVATE_SINKS=true; npm run demo brings its own.'
  return [where, 'Then subscribe, and send a first event:', '', createSubscription(info, receiver), '', sendEvent(info)]
}

/** Where one is asked for. */
const CREDENTIAL = 'authorization: Bearer …'

function createSubscription({ url, open }: WelcomeInfo, receiver: string): string {
  const body = { name: 'first', event_types: ['*'], sink: { kind: 'webhook', url: receiver } }
  const who = open ? 'x-tenant-id: acme' : CREDENTIAL
  return `curl ${url}/v1/subscriptions -H '${who}' -H 'content-type: application/json' -d '${JSON.stringify(body)}'`
}

function sendEvent({ url, open }: WelcomeInfo): string {
  const attributes = {
    specversion: '1.0',
    id: randomUUIDv7(),
    source: 'lender',
    type: 'studio.lerian.lender.loan_application.approved',
    time: new Date().toISOString(),
    schemaversion: '1.0.0',
    resourcetype: 'loan_application',
    eventtype: 'approved',
    tenantid: 'acme',
  }
  const credential = open ? [] : [`-H '${CREDENTIAL}'`]
  const headers = [...credential, ...Object.entries(attributes).map(([name, value]) => `-H 'ce-${name}: ${value}'`)]
  return `curl ${url}/v1/ingest -H 'content-type: application/json' ${headers.join(' ')} -d '{"amount":"1200.00"}'`
}
