// A hub as it is started, with a collector: what it hands over is the producer's trace, through to the receiver.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { testDatabase } from '../support/database.ts'
import { uuid7 } from '../support/fixtures.ts'
import { startHub } from '../support/hub.ts'
import { startReceiver } from '../support/receiver.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

test('a hub hands its spans over to the collector before it ends, under the trace of the producer', async () => {
  await using database = await testDatabase()
  const arrived = Promise.withResolvers<string | undefined>()
  await using receiver = await startReceiver((response, { headers, body }) => {
    const challenge = /"challenge":"([^"]+)"/.exec(body.toString())?.[1]
    response.end(challenge)
    if (!challenge) arrived.resolve(headers['traceparent'] as string | undefined)
  })
  const bodies: Buffer[] = []
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    bodies.push(await buffer(request))
    response.end()
  }
  const collector = createServer((request, response) => void take(request, response)).listen(0, '127.0.0.1')
  await new Promise((resolve) => collector.once('listening', resolve))
  const hub = await startHub({
    STREAMING_HUB_POSTGRES_DSN: database.dsn,
    STREAMING_HUB_DEV_BROKER_PORT: '0',
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
  })
  try {
    await subscribe(hub.url, receiver.url)
    await sendEvent(hub.url)
    const traceparent = (await arrived.promise) ?? ''
    assert.match(traceparent, new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`))
    assert.equal(await hub.stop(), 0)
    const handedOver = Buffer.concat(bodies)
    for (const name of ['ingest loan.approved', 'deliver loan.approved', TRACE, traceparent.split('-')[2] ?? ''])
      assert.ok(handedOver.includes(/^[0-9a-f]+$/.test(name) ? Buffer.from(name, 'hex') : name), name)
    assert.ok(!handedOver.includes('PLANTED-BODY'))
  } finally {
    await hub.kill()
    collector.close()
  }
})

/** Resolves when it is verified: only then it counts. */
async function subscribe(hub: string, url: string): Promise<void> {
  const tenant = { 'x-tenant-id': 'acme' }
  const created = await fetch(`${hub}/v1/subscriptions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...tenant },
    body: JSON.stringify({ name: 'all', event_types: ['*'], sink: { kind: 'webhook', url } }),
  })
  const { id } = (await created.json()) as { id: string }
  for (let state = ''; state !== 'active';) {
    const answer = await fetch(`${hub}/v1/subscriptions/${id}`, { headers: tenant })
    state = ((await answer.json()) as { verification_state: string }).verification_state
  }
}

async function sendEvent(url: string): Promise<void> {
  const attributes = {
    specversion: '1.0',
    id: uuid7(),
    time: '2026-01-01T00:00:00Z',
    source: 'lender',
    type: 'studio.lerian.lender.loan.approved',
    resourcetype: 'loan',
    eventtype: 'approved',
    schemaversion: '1.0.0',
    tenantid: 'acme',
  }
  const headers = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value]))
  const answer = await fetch(`${url}/v1/ingest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', traceparent: `00-${TRACE}-00f067aa0ba902b7-01`, ...headers },
    body: '{"secret":"PLANTED-BODY"}',
  })
  assert.ok(answer.ok, await answer.text())
}
