// The loop under faults, on the development broker: what is written, what is committed, and what never is.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createRegistry } from '../../src/base/metrics.ts'
import type { BatchHandler } from '../../src/stream/stream.ts'
import { createInbox, gate, noDeadline, observedBroker, readableLog, testStream, Watch } from '../support/stream.ts'

const LENDER = 'lerian.streaming.lender'
const LEDGER = 'lerian.streaming.ledger'
const api = { FETCH: 1, OFFSET_COMMIT: 8, JOIN: 11, HEARTBEAT: 12, SYNC: 14 }
const code = { NOT_COORDINATOR: 16, ILLEGAL_GENERATION: 22, UNKNOWN_MEMBER_ID: 25, REBALANCE_IN_PROGRESS: 27 }

describe('a batch', () => {
  test('is handed over in order with its raw headers, and committed after it has been written', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    const committedBefore: bigint[] = []
    const inbox = createInbox(watch, async ({ partition }) => {
      committedBefore.push(kafka.committed(LENDER, partition))
    })
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await kafka.produce(LENDER, 0, 'a', 'b')
    await kafka.produce(LENDER, 1, 'c')
    await stream.start()
    await watch.until(() => stream.lag().length === 2 && stream.lag().every(({ lag }) => lag === 0n))
    assert.deepEqual(inbox.values(`${LENDER}:0`), ['a', 'b'])
    assert.deepEqual(inbox.values(`${LENDER}:1`), ['c'])
    assert.deepEqual(committedBefore, [-1n, -1n])
    assert.deepEqual(
      stream.lag().map(({ partition, position, committed, lag }) => ({ partition, position, committed, lag })),
      [
        { partition: 0, position: 2n, committed: 2n, lag: 0n },
        { partition: 1, position: 1n, committed: 1n, lag: 0n },
      ],
    )
  })

  test('is cut into slices, each committed before the next is written', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 1)
    const inbox = createInbox(watch)
    await using stream = testStream({
      brokers: kafka.brokers,
      handler: inbox.handler,
      log: readableLog(watch).log,
      batchRecords: 10,
    })
    await kafka.produce(LENDER, 0, ...Array.from({ length: 35 }, (_, index) => `${index}`))
    await stream.start()
    await watch.until(() => kafka.committed(LENDER, 0) === 35n)
    assert.deepEqual(
      inbox.batches.map(({ records }) => records.length),
      [10, 10, 10, 5],
    )
    assert.deepEqual(
      kafka.commits.map(({ offset }) => offset),
      [10n, 20n, 30n, 35n],
    )
  })

  test('that cannot be written comes again, uncommitted, while its neighbour goes on', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    let refusals = 3
    const inbox = createInbox(watch, async ({ partition }) => {
      if (partition === 0 && refusals-- > 0) throw new Error('the database is away')
    })
    const log = readableLog(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: log.log })
    await kafka.produce(LENDER, 0, 'a', 'b')
    await kafka.produce(LENDER, 1, 'c')
    await stream.start()
    await watch.until(() => kafka.committed(LENDER, 1) === 1n)
    assert.equal(kafka.committed(LENDER, 0), -1n)
    await watch.until(() => kafka.committed(LENDER, 0) === 2n)
    assert.deepEqual(inbox.values(`${LENDER}:0`), ['a', 'b'])
    await watch.until(() => log.messages().some((message) => message.endsWith('over')))
    const said = log.messages().filter((message) => message.includes('makes no progress'))
    assert.deepEqual(said, [
      `partition 0 of ${LENDER} makes no progress`,
      `partition 0 of ${LENDER} makes no progress: over`,
    ])
  })

  test('that cannot be decoded stalls its own partition only, and is shown', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    await kafka.produce(LENDER, 0, 'a')
    await kafka.produce(LENDER, 0, 'b')
    const log = kafka.broker.topics.log(LENDER, 0)
    const broken = Buffer.from(log?.read(1n, 1 << 20, true) ?? [])
    broken.writeInt16BE(4, 21) // says that it is compressed with zstd, which it is not
    log?.append(broken)
    await kafka.produce(LENDER, 1, 'c')
    const inbox = createInbox(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await stream.start()
    await watch.until(() => stream.lag()[0]?.problem !== undefined && stream.lag()[0]?.problem !== null)
    await kafka.produce(LENDER, 1, 'd')
    await watch.until(() => kafka.committed(LENDER, 1) === 2n)
    assert.deepEqual(inbox.values(`${LENDER}:0`), ['a', 'b'])
    assert.equal(kafka.committed(LENDER, 0), 2n)
    assert.equal(stream.lag()[0]?.lag, 1n)
  })

  test('of records larger than the whole memory budget still comes through, and what is held stays within it', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 8)
    const size = 100_000
    for (let partition = 0; partition < 8; partition++) {
      for (let round = 0; round < 6; round++) await kafka.produce(LENDER, partition, 'x'.repeat(size))
    }
    await kafka.produce(LENDER, 3, 'x'.repeat(700_000))
    let [held, most] = [0, 0]
    const inbox = createInbox(watch, async ({ records }) => {
      const bytes = records.reduce((sum, { value }) => sum + (value?.length ?? 0), 0)
      held += bytes
      if (bytes < 700_000) most = Math.max(most, held)
      await new Promise((resolve) => setImmediate(resolve))
      held -= bytes
    })
    await using stream = testStream({
      brokers: kafka.brokers,
      handler: inbox.handler,
      log: readableLog(watch).log,
      memoryBytes: 400_000,
    })
    await stream.start()
    await watch.until(() => inbox.count() === 49)
    assert.ok(most <= 400_000, `${most} bytes were held`)
    assert.ok(most >= 2 * size, `only ${most} bytes were held`)
  })

  test('that retention has taken away is skipped to where the log begins', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 1)
    kafka.broker.groups.get('hub').setOffset(LENDER, 0, { offset: 1n, leaderEpoch: 0 })
    for (const value of ['a', 'b', 'c', 'd']) await kafka.produce(LENDER, 0, value)
    kafka.broker.topics.log(LENDER, 0)?.trimTo(3n)
    const inbox = createInbox(watch)
    const log = readableLog(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: log.log })
    await stream.start()
    await watch.until(() => kafka.committed(LENDER, 0) === 4n)
    assert.deepEqual(inbox.values(`${LENDER}:0`), ['d'])
    assert.ok(log.messages('warn').some((message) => message.includes('no longer holds this position')))
  })
})

describe('a commit', () => {
  for (const [name, refusal] of Object.entries(code)) {
    test(`refused with ${name} is made good, and no offset goes back`, async () => {
      const watch = new Watch()
      await using kafka = await observedBroker(watch)
      kafka.broker.topics.create(LENDER, 1)
      const inbox = createInbox(watch)
      await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
      await kafka.produce(LENDER, 0, 'a')
      await stream.start()
      await watch.until(() => kafka.committed(LENDER, 0) === 1n)
      kafka.broker.faults.fail(api.OFFSET_COMMIT, refusal, 2)
      await kafka.produce(LENDER, 0, 'b')
      await watch.until(() => kafka.committed(LENDER, 0) === 2n)
      await kafka.produce(LENDER, 0, 'c')
      await watch.until(() => kafka.committed(LENDER, 0) === 3n)
      assert.deepEqual([...new Set(inbox.values(`${LENDER}:0`))], ['a', 'b', 'c'])
      const taken = kafka.commits.filter(({ errorCode }) => errorCode === 0).map(({ offset }) => offset)
      assert.deepEqual(
        taken,
        taken.toSorted((a, b) => Number(a - b)),
      )
    })
  }

  test('is never sent under a newer generation than the one that its write began in', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 1)
    const writing = gate()
    const inbox = createInbox(watch, async ({ records }) => {
      if (records[0]?.value?.toString() === 'slow' && inbox.count() === 0) await writing.opened
    })
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await kafka.produce(LENDER, 0, 'slow')
    await stream.start()
    await watch.until(() => stream.lag()[0]?.end === 1n)
    const before = kafka.broker.groups.get('hub').generation
    kafka.broker.faults.fail(api.HEARTBEAT, code.UNKNOWN_MEMBER_ID) // expelled while it writes
    await watch.until(() => kafka.broker.groups.get('hub').generation > before)
    writing.open()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
    const old = kafka.commits.filter(({ generation }) => generation <= before)
    assert.deepEqual(old, [])
  })
})

describe('a write', () => {
  test('that hangs beyond the session time-out costs the membership nothing, nor the other partitions', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    const hanging = gate()
    const inbox = createInbox(watch, async ({ partition }) => {
      if (partition === 0) await hanging.opened
    })
    await using stream = testStream({
      brokers: kafka.brokers,
      handler: inbox.handler,
      log: readableLog(watch).log,
      timings: { sessionTimeoutMs: 300, rebalanceTimeoutMs: 1_000, heartbeatIntervalMs: 50 },
    })
    await kafka.produce(LENDER, 0, 'stuck')
    await stream.start()
    await watch.until(() => stream.lag()[0]?.end === 1n)
    // Ten beats of the neighbour, each in a session of its own, outlast the session by far.
    const started = Date.now()
    for (let beat = 1; Date.now() - started < 900; beat++) {
      await kafka.produce(LENDER, 1, `${beat}`)
      await watch.until(() => kafka.committed(LENDER, 1) === BigInt(beat))
    }
    assert.equal(kafka.committed(LENDER, 0), -1n)
    assert.equal(kafka.broker.groups.get('hub').generation, 1)
    hanging.open()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
    assert.deepEqual(inbox.values(`${LENDER}:0`), ['stuck'])
  })

  test('that ends after its partition has moved is told so, and nothing of it is committed', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    const late = gate()
    const revocations: boolean[] = []
    const hangs: BatchHandler = async (_batch, revoked) => {
      await late.opened
      revocations.push(revoked.aborted)
    }
    const first = createInbox(watch, hangs)
    const second = createInbox(watch)
    const log = readableLog(watch).log
    await using one = testStream({ brokers: kafka.brokers, handler: first.handler, log })
    await using other = testStream({ brokers: kafka.brokers, handler: second.handler, log })
    for (const partition of [0, 1]) await kafka.produce(LENDER, partition, 'a', 'b')
    await one.start()
    await watch.until(() => one.lag().length === 2 && one.lag().every(({ end }) => end === 2n))
    await other.start()
    await watch.until(() => kafka.commits.length === 1)
    late.open()
    await watch.until(() => revocations.length > 2)
    // Whatever the late writes would have committed has gone out before what comes now is committed.
    for (const partition of [0, 1]) await kafka.produce(LENDER, partition, 'c')
    await watch.until(() => kafka.committed(LENDER, 0) === 3n && kafka.committed(LENDER, 1) === 3n)
    assert.deepEqual(revocations.slice(0, 2), [true, true])
    assert.deepEqual(kafka.foreign, [])
    const moved = other.lag()[0]?.partition
    assert.deepEqual([...new Set(second.values(`${LENDER}:${moved}`))], ['a', 'b', 'c'])
  })
})

describe('stopping', () => {
  test('waits for what is being written, and commits it', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 1)
    const writing = gate()
    let began = false
    const inbox = createInbox(watch, async () => {
      began = true
      watch.touch()
      await writing.opened
    })
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await kafka.produce(LENDER, 0, 'a')
    await stream.start()
    await watch.until(() => began)
    const stopped = stream.stop(noDeadline)
    writing.open()
    await stopped
    assert.equal(kafka.committed(LENDER, 0), 1n)
  })

  test('lets a hanging write go at its deadline, uncommitted, and leaves the group', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 1)
    let token: AbortSignal | null = null
    const inbox = createInbox(watch, async (_batch, revoked) => {
      token = revoked
      watch.touch()
      await new Promise(() => undefined)
    })
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await kafka.produce(LENDER, 0, 'a')
    await stream.start()
    await watch.until(() => token !== null)
    await stream.stop(AbortSignal.timeout(50))
    assert.equal((token as AbortSignal | null)?.aborted, true)
    assert.equal(kafka.committed(LENDER, 0), -1n)
    const next = createInbox(watch)
    await using heir = testStream({ brokers: kafka.brokers, handler: next.handler, log: readableLog(watch).log })
    await heir.start()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
    assert.deepEqual(next.values(`${LENDER}:0`), ['a'])
  })

  test('may happen twice, and before the start', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    const inbox = createInbox(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await stream.stop(noDeadline)
    await stream.stop(noDeadline)
    await using started = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await started.start()
    await Promise.all([started.stop(noDeadline), started.stop(AbortSignal.abort())])
    await started.stop(noDeadline)
  })
})

describe('a broker', () => {
  test('that is away at the start is said once, is seen in health, and is used when it comes', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 1)
    await kafka.produce(LENDER, 0, 'a')
    await kafka.broker.suspend()
    const inbox = createInbox(watch)
    const log = readableLog(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: log.log })
    await stream.start()
    await watch.until(() => stream.health().problem?.includes('ECONNREFUSED') === true)
    assert.equal(stream.health().connected, false)
    await kafka.broker.resume()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
    assert.deepEqual(
      log.messages().filter((message) => message.includes('cannot be reached')),
      ['the Kafka cluster cannot be reached', 'the Kafka cluster cannot be reached: over'],
    )
    assert.equal(stream.health().problem, null)
    assert.equal(stream.health().joined, true)
  })

  test('that goes away and comes back loses nothing, and is said once', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 3)
    const inbox = createInbox(watch)
    const log = readableLog(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: log.log })
    await kafka.produce(LENDER, 0, 'a')
    await stream.start()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
    await kafka.broker.suspend()
    await watch.until(() => log.messages('warn').length > 0)
    await kafka.broker.resume()
    await watch.until(() => log.messages().some((message) => message.endsWith('over')))
    await kafka.produce(LENDER, 0, 'b')
    await watch.until(() => kafka.committed(LENDER, 0) === 2n)
    assert.deepEqual([...new Set(inbox.values(`${LENDER}:0`))], ['a', 'b'])
    assert.deepEqual(log.messages('warn'), ['the Kafka cluster cannot be reached'])
  })

  test('that cuts connections now and then is not even worth a word about each partition', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 4)
    const inbox = createInbox(watch)
    const log = readableLog(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: log.log })
    await stream.start()
    await watch.until(() => stream.health().joined)
    for (let round = 0; round < 5; round++) {
      kafka.broker.dropConnections()
      await kafka.produce(LENDER, round % 4, `${round}`).catch(() => kafka.produce(LENDER, round % 4, `${round}`))
      await watch.until(() => inbox.count() > round)
    }
    assert.deepEqual(
      log.messages('warn').filter((message) => message.includes('partition')),
      [],
    )
  })
})

describe('a topic', () => {
  test('that appears, grows, is deleted and made anew needs no restart', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    const { topics, groups } = kafka.broker
    topics.create(LENDER, 1)
    const inbox = createInbox(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await stream.start()
    await kafka.produce(LENDER, 0, 'first')
    await watch.until(() => inbox.count() === 1)
    topics.create(LEDGER, 1)
    await kafka.produce(LEDGER, 0, 'appeared')
    await watch.until(() => inbox.values(`${LEDGER}:0`).includes('appeared'))
    topics.grow(LENDER, 3)
    await watch.until(() => stream.lag().some(({ topic, partition }) => topic === LENDER && partition === 2))
    await kafka.produce(LEDGER, 0, 'still there')
    await watch.until(() => kafka.committed(LEDGER, 0) === 2n)
    topics.delete(LEDGER)
    groups.forgetTopic(LEDGER)
    topics.create(LEDGER, 1)
    // More than the old one held, so that only the topic's id tells that they are not its continuation.
    await kafka.append(LEDGER, 0, 'n1', 'n2', 'n3', 'n4')
    await watch.until(() => inbox.values(`${LEDGER}:0`).includes('n4'))
    assert.deepEqual(inbox.values(`${LEDGER}:0`).slice(-4), ['n1', 'n2', 'n3', 'n4'])
    topics.delete(LEDGER)
    await watch.until(() => !stream.topics().some(({ topic }) => topic === LEDGER))
    await kafka.produce(LENDER, 0, 'last')
    await watch.until(() => inbox.values(`${LENDER}:0`).includes('last'))
  })

  test('without a leader, or whose partition fails, is sick and stops nobody else', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    const { topics } = kafka.broker
    topics.create(LENDER, 2)
    topics.create(LEDGER, 1)
    const inbox = createInbox(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    const [leaderless, failing] = topics.get(LENDER)?.partitions ?? []
    if (leaderless === undefined || failing === undefined) throw new Error('no partitions')
    leaderless.hasLeader = false
    failing.fault = 56
    await kafka.produce(LEDGER, 0, 'a')
    await stream.start()
    await watch.until(() => kafka.committed(LEDGER, 0) === 1n)
    const standing = stream.topics().find(({ topic }) => topic === LENDER)
    assert.deepEqual(standing, {
      topic: LENDER,
      state: 'sick',
      problem: 'partition 0: LEADER_NOT_AVAILABLE',
      partitions: 2,
    })
    leaderless.hasLeader = true
    failing.fault = 0
    await kafka.produce(LENDER, 0, 'b')
    await kafka.produce(LENDER, 1, 'c')
    await watch.until(() => kafka.committed(LENDER, 0) === 1n && kafka.committed(LENDER, 1) === 1n)
    assert.equal(stream.topics().find(({ topic }) => topic === LENDER)?.state, 'subscribed')
  })

  test('is read from as soon as it has a leader, also where it is the only one', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    const [partition] = kafka.broker.topics.create(LENDER, 1).partitions
    if (partition === undefined) throw new Error('no partition')
    partition.hasLeader = false
    kafka.broker.groups.get('hub').setOffset(LENDER, 0, { offset: 0n, leaderEpoch: 0 })
    const inbox = createInbox(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await stream.start()
    await watch.until(() => stream.lag().length === 1)
    partition.hasLeader = true
    await kafka.produce(LENDER, 0, 'a')
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
  })

  test('of commands or dead letters is foreign, and nothing of it is ever read', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    for (const name of [LENDER, `${LENDER}.dlq`, `${LENDER}.commands`, 'other']) kafka.broker.topics.create(name, 1)
    for (const name of [`${LENDER}.dlq`, `${LENDER}.commands`, 'other', LENDER]) await kafka.produce(name, 0, name)
    const inbox = createInbox(watch)
    await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
    await stream.start()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n)
    assert.equal(inbox.count(), 1)
    assert.deepEqual(
      stream.lag().map(({ topic }) => topic),
      [LENDER],
    )
    assert.deepEqual(
      stream.topics().map(({ topic, state }) => [topic, state]),
      [
        [LENDER, 'subscribed'],
        [`${LENDER}.commands`, 'foreign'],
        [`${LENDER}.dlq`, 'foreign'],
        ['other', 'foreign'],
      ],
    )
  })
})

describe('a member', () => {
  for (const [name, refused] of [
    ['HEARTBEAT', api.HEARTBEAT],
    ['JOIN', api.JOIN],
    ['SYNC', api.SYNC],
  ] as const) {
    test(`whose ${name} request is refused in every way joins again and goes on`, async () => {
      const watch = new Watch()
      await using kafka = await observedBroker(watch)
      kafka.broker.topics.create(LENDER, 1)
      const inbox = createInbox(watch)
      await using stream = testStream({ brokers: kafka.brokers, handler: inbox.handler, log: readableLog(watch).log })
      for (const refusal of Object.values(code)) kafka.broker.faults.fail(refused, refusal)
      await kafka.produce(LENDER, 0, 'a')
      await stream.start()
      await watch.until(() => kafka.committed(LENDER, 0) === 1n)
      await kafka.produce(LENDER, 0, 'b')
      await watch.until(() => kafka.committed(LENDER, 0) === 2n)
      assert.deepEqual([...new Set(inbox.values(`${LENDER}:0`))], ['a', 'b'])
    })
  }

  test('begins nothing more once it is to give its partitions up', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    const writing = gate()
    const first = createInbox(watch, async ({ partition }) => {
      if (partition === 0) await writing.opened
    })
    const second = createInbox(watch)
    const log = readableLog(watch)
    await using one = testStream({ brokers: kafka.brokers, handler: first.handler, log: log.log })
    await using other = testStream({ brokers: kafka.brokers, handler: second.handler, log: readableLog(watch).log })
    await kafka.produce(LENDER, 0, 'under way')
    await one.start()
    await watch.until(() => one.lag()[0]?.end === 1n)
    await other.start()
    await watch.until(() => log.messages().some((message) => message.startsWith('giving the partitions up')))
    await kafka.produce(LENDER, 1, 'comes too late for the old owner')
    writing.open()
    await watch.until(() => kafka.committed(LENDER, 0) === 1n && kafka.committed(LENDER, 1) === 1n)
    assert.deepEqual([first.values(`${LENDER}:1`), second.count()], [[], 1])
  })

  test('that joins takes its share only after the other has written and committed what it had begun', async () => {
    const watch = new Watch()
    await using kafka = await observedBroker(watch)
    kafka.broker.topics.create(LENDER, 2)
    const [first, second] = [createInbox(watch), createInbox(watch)]
    const log = readableLog(watch).log
    await using one = testStream({ brokers: kafka.brokers, handler: first.handler, log, batchRecords: 2 })
    await using other = testStream({ brokers: kafka.brokers, handler: second.handler, log, batchRecords: 2 })
    let produced = 0n
    const produce = async (): Promise<void> => {
      for (const partition of [0, 1]) await kafka.produce(LENDER, partition, 'a', 'b', 'c')
      produced += 3n
    }
    await one.start()
    await watch.until(() => one.lag().length === 2)
    await other.start()
    while (second.count() < 10) await produce()
    await watch.until(() => [0, 1].every((partition) => kafka.committed(LENDER, partition) === produced))
    assert.ok(first.count() > 0, 'both took part')
    assert.equal(first.count() + second.count(), 2 * Number(produced), 'a planned hand-over repeats nothing')
  })
})

test('what happens is counted', async () => {
  const watch = new Watch()
  await using kafka = await observedBroker(watch)
  kafka.broker.topics.create(LENDER, 1)
  const registry = createRegistry({ processMetrics: false })
  const log = readableLog(watch).log
  await using stream = testStream({
    brokers: kafka.brokers,
    handler: createInbox(watch).handler,
    log,
    metrics: registry,
  })
  await using beside = testStream({
    brokers: kafka.brokers,
    handler: async () => undefined,
    log,
    metrics: registry,
    groupId: 'dlq',
  })
  kafka.broker.faults.fail(api.OFFSET_COMMIT, code.NOT_COORDINATOR)
  await kafka.produce(LENDER, 0, 'a', 'b')
  await Promise.all([stream.start(), beside.start()])
  await watch.until(() => stream.lag()[0]?.committed === 2n && beside.lag()[0]?.committed === 2n)
  const text = await registry.metrics()
  for (const group of ['hub', 'dlq']) {
    assert.match(text, new RegExp(`hub_stream_records_total\\{group="${group}",topic="${LENDER}"\\} 2`))
    assert.match(text, new RegExp(`hub_stream_batches_total\\{group="${group}",topic="${LENDER}"\\} 1`))
    assert.match(text, new RegExp(`hub_stream_lag_records\\{group="${group}",topic="${LENDER}",partition="0"\\} 0`))
    assert.match(text, new RegExp(`hub_stream_write_seconds_count\\{group="${group}",outcome="written"\\} 1`))
    assert.match(text, new RegExp(`hub_stream_rebalances_total\\{group="${group}"\\} 1`))
  }
  assert.match(text, /hub_stream_commits_refused_total\{group="(hub|dlq)"\} 1/)
  await Promise.all([stream.stop(noDeadline), beside.stop(noDeadline)])
  assert.doesNotMatch(await registry.metrics(), /hub_stream_lag_records\{/)
})
