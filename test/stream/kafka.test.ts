// The stream on a real Apache Kafka: what the development broker cannot show (transactions, real rebalances, real deletion), and that
// what it does show is true. Topics and groups are this run's own, so that other tests may use the same broker.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import { Admin, CompressionAlgorithms, Producer } from '@platformatic/kafka'
import { startKafka } from '../../dev/kafka.ts'
import { silentLog } from '../../src/base/log.ts'
import { realKafka } from '../support/kafka.ts'
import {
  createInbox,
  gate,
  readableLog,
  testStream,
  Watch,
  type Inbox,
  type TestStreamOptions,
} from '../support/stream.ts'

describe('on a real Kafka', () => {
  test('records of every codec come with their headers in order, doubles and nulls included', async (t) => {
    await using kafka = await openKafka(t)
    if (kafka === null) return
    const topic = await kafka.topic('codecs', 2)
    const headers = new Map([
      [Buffer.from('ce-id'), Buffer.from('1')],
      [Buffer.from('ce-id'), Buffer.from('2')],
      [Buffer.from([0xff]), Buffer.alloc(0)],
    ])
    const codecs = Object.values(CompressionAlgorithms)
    for (const compression of codecs) {
      const message = { topic, partition: 1, headers, key: Buffer.from('k') }
      const messages = [{ ...message, value: Buffer.from(compression) }, message]
      await kafka.producer.send({ messages, acks: -1, compression })
    }
    const inbox = createInbox(kafka.watch)
    await using stream = kafka.stream({ handler: inbox.handler, log: silentLog })
    await stream.start()
    await kafka.watch.until(() => inbox.count() === 2 * codecs.length)
    assert.deepEqual(
      inbox.values(`${topic}:1`),
      codecs.flatMap((codec) => [codec, '(null)']),
    )
    for (const { records } of inbox.batches) {
      for (const record of records) assert.deepEqual(record.headers, [...headers])
    }
    await kafka.watch.until(() => stream.lag().every(({ lag }) => lag === 0n))
  })

  test('aborted transactions never come, whole or in parts, and leave no lag behind', async (t) => {
    await using kafka = await openKafka(t)
    if (kafka === null) return
    const topic = await kafka.topic('transactions', 1)
    const large = 'x'.repeat(700_000) // two do not fit into one fetch: the end of the transaction is not seen with its beginning
    const transactions: [string[], 'commit' | 'abort'][] = [
      [['a1', 'a2'], 'abort'],
      [['b'], 'commit'],
      [['c'], 'abort'],
      [['d'], 'commit'],
      [[large, large, large], 'abort'],
      [['e'], 'commit'],
    ]
    for (const [values, end] of transactions) {
      const transaction = await kafka.transactional.beginTransaction()
      for (const value of values) await transaction.send({ messages: [{ topic, value: Buffer.from(value) }] })
      await transaction[end]()
    }
    const inbox = createInbox(kafka.watch)
    await using stream = kafka.stream({ handler: inbox.handler, log: silentLog })
    await stream.start()
    await kafka.watch.until(() => inbox.values(`${topic}:0`).includes('e') && stream.lag()[0]?.lag === 0n)
    assert.deepEqual(inbox.values(`${topic}:0`), ['b', 'd', 'e'])
  })

  test('a topic may appear, grow, be deleted and made anew while the stream runs', async (t) => {
    await using kafka = await openKafka(t)
    if (kafka === null) return
    const first = await kafka.topic('lender', 1)
    const inbox = createInbox(kafka.watch)
    await using stream = kafka.stream({ handler: inbox.handler, log: silentLog })
    await stream.start()
    await kafka.send(first, 0, 'first')
    await kafka.watch.until(() => inbox.count() === 1)
    const second = await kafka.topic('ledger', 1)
    await kafka.send(second, 0, 'appeared')
    await kafka.watch.until(() => inbox.values(`${second}:0`).includes('appeared'))
    await kafka.admin.createPartitions({
      topics: [{ name: first, count: 3, assignments: null }],
    })
    await kafka.watch.until(() => stream.lag().filter(({ topic }) => topic === first).length === 3)
    await kafka.send(first, 2, 'grown')
    await kafka.watch.until(() => inbox.values(`${first}:2`).includes('grown'))
    await kafka.admin.deleteTopics({ topics: [second] })
    await kafka.watch.until(() => !stream.topics().some(({ topic }) => topic === second))
    await kafka.topic('ledger', 1)
    await kafka.send(second, 0, 'new life')
    await kafka.watch.until(() => inbox.values(`${second}:0`).includes('new life'))
    await kafka.send(first, 0, 'last')
    await kafka.watch.until(() => inbox.values(`${first}:0`).includes('last'))
  })

  test('a position that retention has passed is taken up where the log begins', async (t) => {
    await using kafka = await openKafka(t)
    if (kafka === null) return
    const topic = await kafka.topic('retention', 1)
    const [one, other] = [createInbox(kafka.watch), createInbox(kafka.watch)]
    await kafka.send(topic, 0, 'a')
    await using before = kafka.stream({ handler: one.handler, log: silentLog })
    await before.start()
    await kafka.watch.until(() => before.lag()[0]?.lag === 0n)
    await before.stop(AbortSignal.timeout(5_000))
    for (const value of ['b', 'c', 'd']) await kafka.send(topic, 0, value)
    await kafka.admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 3n }] }] })
    const log = readableLog(kafka.watch)
    await using after = kafka.stream({ handler: other.handler, log: log.log })
    await after.start()
    await kafka.watch.until(() => after.lag()[0]?.lag === 0n)
    assert.deepEqual(other.values(`${topic}:0`), ['d'])
    assert.ok(log.messages('warn').some((message) => message.includes('no longer holds this position')))
  })

  test('members that join and leave share the partitions, lose nothing and repeat nothing', async (t) => {
    await using kafka = await openKafka(t)
    if (kafka === null) return
    const topic = await kafka.topic('members', 6)
    const inbox = createInbox(kafka.watch)
    const options = { handler: inbox.handler, log: silentLog, batchRecords: 20 }
    await using one = kafka.stream(options)
    await using two = kafka.stream(options)
    await using three = kafka.stream(options)
    let produced = 0
    const produce = async (): Promise<void> => {
      for (let partition = 0; partition < 6; partition++) {
        const values = Array.from({ length: 50 }, (_, index) => `${produced + index}`)
        await kafka.send(topic, partition, ...values)
        produced += 50
      }
    }
    const shared = (members: (typeof one)[]): boolean =>
      members.every((member) => member.lag().length === 6 / members.length)
    await one.start()
    await produce()
    await two.start()
    await kafka.watch.until(() => shared([one, two]))
    await produce()
    await three.start()
    await kafka.watch.until(() => shared([one, two, three]))
    await produce()
    await one.stop(AbortSignal.timeout(5_000))
    await produce()
    await kafka.watch.until(() => shared([two, three]))
    await two.stop(AbortSignal.timeout(5_000))
    await produce()
    await kafka.watch.until(() => new Set(placesOf(inbox)).size === produced)
    await kafka.watch.until(() => three.lag().every(({ position, committed }) => position === committed))
    assert.deepEqual(placesOf(inbox).length, produced, 'planned hand-overs repeat nothing')
  })

  test('a write that outlasts its partition is never committed, and its records come to the new owner', async (t) => {
    await using kafka = await openKafka(t)
    if (kafka === null) return
    const topic = await kafka.topic('moved', 2)
    const hanging = gate()
    const tokens: AbortSignal[] = []
    const first = createInbox(kafka.watch, async (_batch, revoked) => {
      tokens.push(revoked)
      kafka.watch.touch()
      await hanging.opened
    })
    const second = createInbox(kafka.watch)
    await using one = kafka.stream({ handler: first.handler, log: silentLog })
    await using two = kafka.stream({ handler: second.handler, log: silentLog })
    for (const partition of [0, 1]) await kafka.send(topic, partition, 'x')
    await one.start()
    await kafka.watch.until(() => tokens.length === 2)
    await two.start()
    await kafka.watch.until(() => second.count() === 1 && two.lag()[0]?.lag === 0n)
    assert.deepEqual(
      tokens.slice(0, 2).map(({ aborted }) => aborted),
      [true, true],
    )
    hanging.open()
    await kafka.watch.until(() => one.lag()[0]?.lag === 0n)
    assert.deepEqual(
      two.lag().map(({ committed }) => committed),
      [1n],
    )
  })

  test('a broker that is killed and comes back loses nothing, and is said once', async (t) => {
    if (realKafka(t) === null) return
    const own = await startKafka()
    await using scope = new AsyncDisposableStack()
    scope.defer(() => own.stop())
    await using kafka = await clientsOf(own.brokers)
    const topic = await kafka.topic('restart', 2)
    const inbox = createInbox(kafka.watch)
    const log = readableLog(kafka.watch)
    await using stream = kafka.stream({ handler: inbox.handler, log: log.log })
    await stream.start()
    await kafka.send(topic, 0, 'before')
    await kafka.watch.until(() => inbox.count() === 1)
    await own.kill()
    await kafka.watch.until(() => !stream.health().connected)
    await own.resume()
    await kafka.watch.until(() => stream.health().connected && stream.health().joined && stream.lag().length === 2)
    await kafka.send(topic, 0, 'after')
    await kafka.watch.until(() => inbox.values(`${topic}:0`).includes('after'))
    assert.deepEqual([...new Set(inbox.values(`${topic}:0`))], ['before', 'after'])
    const said = log.messages('warn').filter((message) => message.includes('cannot be reached'))
    assert.deepEqual(said, ['the Kafka cluster cannot be reached'])
  })
})

interface Kafka extends AsyncDisposable {
  watch: Watch
  admin: Admin
  producer: Producer
  transactional: Producer
  /** Makes a topic of this run's own, and gives its full name. */
  topic(name: string, partitions: number): Promise<string>
  send(topic: string, partition: number, ...values: string[]): Promise<void>
  /** A stream in this run's own group, of this run's topics only. */
  stream(options: Omit<TestStreamOptions, 'brokers'>): ReturnType<typeof testStream>
}

async function openKafka(t: TestContext): Promise<Kafka | null> {
  const brokers = realKafka(t)
  return brokers === null ? null : clientsOf(brokers)
}

async function clientsOf(brokers: string[]): Promise<Kafka> {
  const own = randomUUID().slice(0, 8)
  const client = { clientId: 'test', bootstrapBrokers: brokers, retryDelay: 100, retries: 50 }
  const admin = new Admin(client)
  const producer = new Producer(client)
  const transactional = new Producer({ ...client, idempotent: true, transactionalId: own })
  const nameOf = (name: string): string => `lerian.streaming.${own}-${name}`
  return {
    watch: new Watch(),
    admin,
    producer,
    transactional,
    topic: async (name, partitions) => {
      await admin.createTopics({ topics: [nameOf(name)], partitions, replicas: 1 })
      return nameOf(name)
    },
    send: async (topic, partition, ...values) => {
      // This producer puts records elsewhere where it does not know of a partition yet.
      producer.clearMetadata()
      const messages = values.map((value) => ({ topic, partition, value: Buffer.from(value) }))
      await producer.send({ messages, acks: -1 })
    },
    stream: (options) =>
      testStream({ ...options, brokers, groupId: own, accepts: (topic) => topic.startsWith(nameOf('')) }),
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled([admin.close(), producer.close(), transactional.close()])
    },
  }
}

function placesOf(inbox: Inbox): string[] {
  return inbox.batches.flatMap(({ topic, partition, records }) =>
    records.map(({ position }) => `${topic}:${partition}:${position?.offset}`),
  )
}
