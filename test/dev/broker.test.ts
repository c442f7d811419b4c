import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { Admin, Consumer, createRecordsBatch, Producer } from '@platformatic/kafka'
import { createDevBroker, type DevBroker } from '../../dev/broker.ts'
import { PartitionLog } from '../../dev/broker/log.ts'
import { noDeadline, readableLog, Watch } from '../support/stream.ts'

describe('the development broker', () => {
  test("serves the library's own producer and consumer, group and all", async () => {
    await using broker = await running()
    broker.topics.create('orders', 2)
    await using clients = clientsOf(broker)
    for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const) {
      const messages = [0, 1].map((partition) => ({ topic: 'orders', partition, value: Buffer.from(compression) }))
      await clients.producer.send({ messages, acks: -1, compression })
    }
    const stream = await clients.consumer.consume({ topics: ['orders'], mode: 'earliest' })
    const values: string[] = []
    for await (const message of stream) {
      values.push(`${message.partition}:${message.value.toString()}`)
      if (values.length === 10) break
    }
    assert.equal(new Set(values).size, 10)
  })

  test('makes a topic that is mentioned only for a client that asks for that', async () => {
    await using broker = await running({ defaultPartitions: 5 })
    await using clients = clientsOf(broker)
    const messages = [{ topic: 'lerian.streaming.lender', value: Buffer.from('x') }]
    await assert.rejects(clients.producer.send({ messages, acks: 1 }))
    assert.deepEqual(broker.topics.all(), [])
    await clients.producer.send({ messages, acks: 1, autocreateTopics: true })
    assert.equal(broker.topics.get('lerian.streaming.lender')?.partitions.length, 5)
  })

  test('takes records from an idempotent producer, and from one that wants no answer', async () => {
    await using broker = await running()
    broker.topics.create('orders', 1)
    await using clients = clientsOf(broker)
    const messages = [{ topic: 'orders', partition: 0, value: Buffer.from('x') }]
    await clients.producer.send({ messages, idempotent: true, acks: -1 })
    await clients.producer.send({ messages, acks: 0 })
    await clients.producer.send({ messages, acks: 1 })
    assert.equal(broker.topics.log('orders', 0)?.end, 3n)
  })

  test('makes and deletes topics by request', async () => {
    await using broker = await running()
    await using clients = clientsOf(broker)
    await clients.admin.createTopics({ topics: ['a', 'b'], partitions: 2, replicas: 1 })
    await assert.rejects(clients.admin.createTopics({ topics: ['a'], partitions: 1, replicas: 1 }))
    await clients.admin.deleteTopics({ topics: ['a'] })
    assert.deepEqual(await clients.admin.listTopics(), ['b'])
  })

  test('says what it is, and takes another port when the one it was given is not free', async () => {
    const occupant = createServer().listen(0, '127.0.0.1')
    await once(occupant, 'listening')
    const { port } = occupant.address() as AddressInfo
    const log = readableLog(new Watch())
    await using broker = await running({ port, log: log.log })
    assert.notEqual(broker.port, port)
    assert.ok(log.messages('warn').some((message) => message.includes('is taken')))
    assert.ok(log.messages('warn').some((message) => message.includes('not Kafka')))
    occupant.close()
    await using other = await running({ port })
    assert.equal(other.address, `127.0.0.1:${port}`)
  })

  test("closes a connection that does not speak Kafka's protocol, and serves on", async () => {
    await using broker = await running()
    for (const garbage of ['GET / HTTP/1.1\r\n\r\n', '\0\0\0\x08\x7f\x7f\0\0\0\0\0\0']) {
      const socket = connect(broker.port, '127.0.0.1')
      socket.end(garbage)
      await once(socket.resume(), 'close')
    }
    await using clients = clientsOf(broker)
    assert.deepEqual(await clients.admin.listTopics(), [])
  })

  test('may be stopped twice, and before it was started', async () => {
    const broker = createDevBroker()
    await broker.stop(noDeadline)
    await broker.start()
    await broker.stop(noDeadline)
    await broker.stop(noDeadline)
  })
})

describe("a partition's log", () => {
  test('holds no more than its bytes: the oldest batches go, and it begins later', () => {
    const log = new PartitionLog(1_000)
    for (let index = 0; index < 20; index++) log.append(batch('x'.repeat(100)))
    assert.equal(log.end, 20n)
    assert.ok(log.start > 10n && log.start < 20n)
    const kept = log.read(log.start, 1 << 20, true)
    assert.ok(kept.length <= 1_000)
    assert.equal(kept.readBigInt64BE(0), log.start)
  })

  test('keeps a batch that alone is too large', () => {
    const log = new PartitionLog(10)
    log.append(batch('first'))
    log.append(batch('second'))
    assert.deepEqual([log.start, log.end], [1n, 2n])
  })

  test('gives whole batches from the one that holds the offset, and at least one where asked', () => {
    const log = new PartitionLog(1 << 20)
    log.append(batch('a', 'b'))
    log.append(batch('c'))
    const one = log.read(1n, 1, true)
    assert.equal(one.readBigInt64BE(0), 0n)
    assert.equal(log.read(1n, 1, false).length, 0)
    assert.equal(log.read(2n, 1 << 20, false).readBigInt64BE(0), 2n)
    assert.equal(log.read(3n, 1 << 20, true).length, 0)
  })
})

async function running(options: Parameters<typeof createDevBroker>[0] = {}): Promise<DevBroker & AsyncDisposable> {
  const broker = createDevBroker(options)
  await broker.start()
  return Object.assign(broker, { [Symbol.asyncDispose]: () => broker.stop(noDeadline) })
}

interface Clients extends AsyncDisposable {
  admin: Admin
  producer: Producer
  consumer: Consumer
}

function clientsOf(broker: DevBroker): Clients {
  const client = { clientId: 'test', bootstrapBrokers: [broker.address], retries: 1, retryDelay: 20 }
  const admin = new Admin(client)
  const producer = new Producer(client)
  const consumer = new Consumer({ ...client, groupId: 'readers' })
  const close = async (): Promise<void> => {
    await Promise.allSettled([admin.close(), producer.close(), consumer.close(true)])
  }
  return { admin, producer, consumer, [Symbol.asyncDispose]: close }
}

function batch(...values: string[]): Buffer {
  const messages = values.map((value) => ({ topic: 't', value: Buffer.from(value) }))
  return Buffer.from(createRecordsBatch(messages).buffer)
}
