// What the stream's tests wait on: a watch that everything which happens touches (batches, commits, log lines), a log that can be
// read back, and handlers that keep what they are given.
import { createRecordsBatch, decodeConsumerProtocolAssignment, Producer } from '@platformatic/kafka'
import { pino } from 'pino'
import { createDevBroker, type DevBroker } from '../../dev/broker.ts'
import type { ObservedCommit } from '../../dev/broker/faults.ts'
import { systemClock } from '../../src/base/clock.ts'
import type { Log } from '../../src/base/log.ts'
import { createKafkaStream, type KafkaStreamOptions } from '../../src/stream/kafka.ts'
import type { BatchHandler, RecordBatch, Stream } from '../../src/stream/stream.ts'
import { factSource } from '../../src/stream/topics.ts'

const DISPOSE_MS = 1_000
/** What has not come to be by now never will, and the test fails. */
const GIVE_UP_MS = 20_000
/** State that nobody announces (lag, health) is looked at this often, in ms. */
const LOOK_EVERY_MS = 10

/** Waiting for something to be so, not for a time: whoever changes something touches the watch, and who waits looks again. */
export class Watch {
  readonly #waiting = new Set<() => void>()

  touch(): void {
    for (const look of this.#waiting) look()
  }

  async until(isSo: () => boolean): Promise<void> {
    if (isSo()) return
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const look = (): void => {
      if (isSo()) resolve()
    }
    this.#waiting.add(look)
    const looking = setInterval(look, LOOK_EVERY_MS)
    const givingUp = setTimeout(() => reject(new Error(`this never came to be: ${isSo.toString()}`)), GIVE_UP_MS)
    try {
      await promise
    } finally {
      clearInterval(looking)
      clearTimeout(givingUp)
      this.#waiting.delete(look)
    }
  }
}

export interface ReadableLog {
  log: Log
  /** Messages in their order, warnings and worse only where `level` says so. */
  messages(level?: 'warn'): string[]
  /** What the lines that have a reason give for one. */
  reasons(): string[]
  /** All that was written, as it was written. */
  text(): string
}

export function readableLog(watch: Watch): ReadableLog {
  const lines: { level: number; msg: string; reason?: string }[] = []
  let text = ''
  const write = (line: string): void => {
    text += line
    lines.push(JSON.parse(line) as { level: number; msg: string; reason?: string })
    watch.touch()
  }
  return {
    log: pino({ level: 'debug' }, { write }),
    messages: (level) => lines.filter((line) => level === undefined || line.level >= 40).map(({ msg }) => msg),
    reasons: () => lines.flatMap(({ reason }) => reason ?? []),
    text: () => text,
  }
}

export interface Inbox {
  handler: BatchHandler
  batches: RecordBatch[]
  /** Values as text, by `topic:partition`, in the order of arrival, those that came twice too. */
  values(place: string): string[]
  count(): number
}

/** Keeps each batch after `write` has resolved; what `write` rejects is not kept. */
export function createInbox(watch: Watch, write: BatchHandler = async () => undefined): Inbox {
  const batches: RecordBatch[] = []
  const handler: BatchHandler = async (batch, revoked) => {
    await write(batch, revoked)
    batches.push(batch)
    watch.touch()
  }
  const values = (place: string): string[] =>
    batches
      .filter(({ topic, partition }) => `${topic}:${partition}` === place)
      .flatMap(({ records }) => records.map(({ value }) => value?.toString() ?? '(null)'))
  return { handler, batches, values, count: () => batches.reduce((sum, { records }) => sum + records.length, 0) }
}

export type TestStreamOptions = Pick<KafkaStreamOptions, 'handler' | 'log'> &
  Partial<KafkaStreamOptions> & { brokers: string[] }

/** A stream of facts with sessions short enough for a test; stopped at the end of the scope. */
export function testStream({ brokers, ...given }: TestStreamOptions): Stream & AsyncDisposable {
  const stream = createKafkaStream({
    name: 'facts',
    connection: { brokers, clientId: 'test-hub' },
    groupId: 'hub',
    accepts: (topic) => factSource(topic) !== null,
    clock: systemClock,
    timings: { sessionTimeoutMs: 1_200, rebalanceTimeoutMs: 1_500, heartbeatIntervalMs: 100 },
    discoverEveryMs: 100,
    ...given,
  })
  // A test that has failed must not wait for a write that it was holding back.
  return Object.assign(stream, { [Symbol.asyncDispose]: () => stream.stop(AbortSignal.timeout(DISPOSE_MS)) })
}

/** A promise that the test settles itself. */
export function gate(): { opened: Promise<void>; open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: resolve }
}

/** A deadline that never comes. */
export const noDeadline = new AbortController().signal

export interface ObservedBroker extends AsyncDisposable {
  broker: DevBroker
  brokers: string[]
  /** Every commit that was asked for, taken or refused. */
  commits: ObservedCommit[]
  /** Commits that were taken from a member that did not own the partition. */
  foreign: string[]
  /** What the group has committed; -1n: nothing. */
  committed(topic: string, partition: number): bigint
  produce(topic: string, partition: number, ...values: string[]): Promise<void>
  /** Puts records into the log without asking the broker, which may be set to refuse. */
  append(topic: string, partition: number, ...values: string[]): Promise<void>
}

/** A development broker whose commits touch `watch`; gone at the end of the scope. */
export async function observedBroker(watch: Watch): Promise<ObservedBroker> {
  const broker = createDevBroker()
  await broker.start()
  const commits: ObservedCommit[] = []
  const foreign: string[] = []
  broker.faults.onCommit = (commit) => {
    commits.push(commit)
    if (commit.errorCode === 0 && !isOwner(broker, commit)) {
      foreign.push(`${commit.memberId} committed ${commit.offset} of ${commit.topic}:${commit.partition}`)
    }
    watch.touch()
  }
  const producer = new Producer({ clientId: 'test-producer', bootstrapBrokers: [broker.address], retryDelay: 50 })
  return {
    broker,
    brokers: [broker.address],
    commits,
    foreign,
    committed: (topic, partition) => broker.groups.get('hub').offset(topic, partition)?.offset ?? -1n,
    produce: async (topic, partition, ...values) => {
      const messages = values.map((value) => ({ topic, partition, value: Buffer.from(value) }))
      await producer.send({ messages, acks: 1 })
    },
    append: async (topic, partition, ...values) => {
      const messages = values.map((value) => ({ topic, value: Buffer.from(value) }))
      broker.topics.log(topic, partition)?.append(Buffer.from(createRecordsBatch(messages).buffer))
    },
    [Symbol.asyncDispose]: async () => {
      await producer.close()
      await broker.stop(noDeadline)
    },
  }
}

function isOwner(broker: DevBroker, { group, memberId, topic, partition }: ObservedCommit): boolean {
  const share = broker.groups.get(group).assignment(memberId) ?? Buffer.alloc(0)
  const owned = decodeConsumerProtocolAssignment(share).assignedPartitions
  return owned.some((each) => each.topic === topic && each.partitions.includes(partition))
}
