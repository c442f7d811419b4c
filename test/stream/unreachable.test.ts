// A server that hangs up on whoever speaks to it: what is said of it depends on how the hub tried to get in.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { systemClock } from '../../src/base/clock.ts'
import { kafkaConnection, type KafkaAccess } from '../../src/stream/connection.ts'
import { whyUnreachable } from '../../src/stream/unreachable.ts'
import { selfSigned } from '../support/certificate.ts'
import { createInbox, readableLog, testStream, Watch } from '../support/stream.ts'

const { cert, key } = selfSigned('kafka.test')
const sasl = { mechanism: 'PLAIN' as const, username: 'hub', password: 's3cr3t' }

function hangUp(socket: Socket): void {
  socket.on('error', () => undefined).once('data', () => socket.end())
}

const ways: [string, () => Server, Partial<KafkaAccess>, RegExp][] = [
  [
    'with TLS and a login',
    () => createTlsServer({ cert, key }, hangUp),
    { tlsEnabled: true, caCert: cert, sasl },
    /: (the broker|127\.0\.0\.1:\d+) closes the connection before the login is done$/,
  ],
  [
    'with a login alone',
    () => createTcpServer(hangUp),
    { sasl },
    /closes the connection before the login: it may want TLS, and STREAMING_HUB_KAFKA_TLS_ENABLED is false$/,
  ],
  [
    'with TLS alone',
    () => createTlsServer({ cert, key }, hangUp),
    { tlsEnabled: true, caCert: cert },
    /closes the connection without an answer: it may want a login \(STREAMING_HUB_KAFKA_SCRAM_… or/,
  ],
]
for (const [way, create, access, problem] of ways) {
  test(way, async () => {
    const server = create().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const brokers = [`127.0.0.1:${(server.address() as AddressInfo).port}`]
    const none = { clientId: 'test', tlsEnabled: false, caCert: null, sasl: null, oauth: null }
    const connection = await kafkaConnection({ ...none, ...access, brokers }, systemClock)
    const watch = new Watch()
    const log = readableLog(watch)
    const { handler } = createInbox(watch)
    await using stream = testStream({ connection, brokers: [], handler, log: log.log, groupId: randomUUID() })
    await stream.start()
    await watch.until(() => stream.health().problem?.startsWith('the Kafka cluster cannot be reached') === true)
    assert.match(stream.health().problem ?? '', problem)
    assert.ok(!log.text().includes(sasl.password))
    server.close()
  })
}

test('who has let us in before wants nothing else of us when the connection breaks', () => {
  const closed = new Error('Listing topics failed.', { cause: new Error('Connection closed') })
  const said = (proven: boolean) => whyUnreachable(closed, { tls: false, login: false, proven })
  assert.match(said(false), /it may want a login/)
  assert.equal(said(true), 'Listing topics failed: Connection closed')
})
