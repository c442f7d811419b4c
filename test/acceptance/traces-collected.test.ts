// A hub as it is started, with a collector: what it hands over is the producer's trace, through to the receiver.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { testDatabase } from '../support/database.ts'
import { sendEvent, subscribe } from '../support/hub-calls.ts'
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
    await subscribe(hub.url, 'acme', receiver.url)
    await sendEvent(hub.url, 'acme', {
      body: '{"secret":"PLANTED-BODY"}',
      traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
    })
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
