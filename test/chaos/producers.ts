// Who writes during a fault run: one plain producer for each codec, one that works in transactions of which some are aborted, and one
// whose topic is compacted, so that it has gaps. What really got in is read from Kafka afterwards: a send that failed may have.
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'
import type { CompressionAlgorithmValue } from '@platformatic/kafka'
import { seededRandom } from '../support/random.ts'
import { uuid7 } from '../support/fixtures.ts'

export const TENANTS = ['acme', 'beta', 'corp', 'delta', 'echo'] as const
export const SOURCES = { plain: 'lender', transactional: 'ledger', compacted: 'matcher' } as const
const PARTITIONS = 4
const CODECS: CompressionAlgorithmValue[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
const PAUSE_MS = 60
/** Sends go on until they succeed; a broker that is away makes them fail for a while. */
const RETRY_MS = 500

export interface Sent {
  /** Ids of events in transactions that were aborted. */
  aborted: Set<string>
  /** Of transactions that were cut off: the broker has decided about them, and we do not know how. */
  open: Set<string>
}

interface Writer extends Sent {
  random: () => number
  stopping: AbortSignal
  brokers: string[]
}

/** Writes until it is stopped. */
export async function startProducers(brokers: string[], seed: number) {
  await createTopics(brokers)
  const stop = new AbortController()
  const writer: Writer = {
    aborted: new Set(),
    open: new Set(),
    random: seededRandom(seed + 1),
    stopping: stop.signal,
    brokers,
  }
  const writing = [
    ...CODECS.map((codec) => writePlain(writer, codec)),
    writeTransactions(writer),
    writeCompacted(writer),
  ]
  return {
    stop: async (): Promise<Sent> => {
      stop.abort()
      await Promise.all(writing)
      return writer
    },
  }
}

async function createTopics(brokers: string[]): Promise<void> {
  const admin = new Admin({ clientId: 'chaos', bootstrapBrokers: brokers })
  const common = { partitions: PARTITIONS, replicas: 1 }
  const compaction = {
    'cleanup.policy': 'compact',
    'segment.ms': '2000',
    'min.cleanable.dirty.ratio': '0.01',
    'max.compaction.lag.ms': '3000',
  }
  const configs = Object.entries(compaction).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [topicOf(SOURCES.plain), topicOf(SOURCES.transactional)], ...common })
  await admin.createTopics({ topics: [topicOf(SOURCES.compacted)], ...common, configs })
  await admin.close()
}

export function topicOf(source: string): string {
  return `lerian.streaming.${source}`
}

async function writePlain(
  { brokers, random, stopping }: Writer,
  compression: CompressionAlgorithmValue,
): Promise<void> {
  const producer = new Producer({ clientId: `chaos-${compression}`, bootstrapBrokers: brokers, idempotent: true })
  while (!stopping.aborted) {
    const messages = Array.from({ length: 1 + Math.floor(random() * 8) }, () => message(SOURCES.plain, random))
    await persist(() => producer.send({ messages, compression }), stopping)
    await delay(PAUSE_MS)
  }
  await producer.close().catch(() => undefined)
}

async function writeTransactions({ brokers, random, stopping, aborted, open }: Writer): Promise<void> {
  for (let producers = 0; !stopping.aborted; producers++) {
    const own = `chaos-tx-${producers}`
    const producer = new Producer({
      clientId: own,
      bootstrapBrokers: brokers,
      idempotent: true,
      transactionalId: 'chaos-tx',
    })
    try {
      while (!stopping.aborted) {
        const messages = Array.from({ length: 1 + Math.floor(random() * 5) }, () =>
          message(SOURCES.transactional, random),
        )
        for (const { id } of messages) open.add(id)
        const transaction = await producer.beginTransaction()
        await transaction.send({ messages })
        const end = random() < 0.3 ? 'abort' : 'commit'
        await transaction[end]()
        for (const { id } of messages) {
          open.delete(id)
          if (end === 'abort') aborted.add(id)
        }
        await delay(PAUSE_MS)
      }
    } catch {
      await delay(RETRY_MS) // the broker was away: the next producer of this id fences what this one left open
    } finally {
      await producer.close().catch(() => undefined)
    }
  }
}

/** Between the events there are system events under one key: compaction removes all but the last of them. */
async function writeCompacted({ brokers, random, stopping }: Writer): Promise<void> {
  const producer = new Producer({ clientId: 'chaos-compacted', bootstrapBrokers: brokers, idempotent: true })
  while (!stopping.aborted) {
    const event = message(SOURCES.compacted, random)
    const filler = Array.from({ length: 5 }, () => message(SOURCES.compacted, random, { systemevent: 'true' }))
    const messages = [...filler.map((each) => ({ ...each, key: Buffer.from('filler') })), event]
    await persist(() => producer.send({ messages }), stopping)
    await delay(PAUSE_MS)
  }
  await producer.close().catch(() => undefined)
}

async function persist(send: () => Promise<unknown>, stopping: AbortSignal): Promise<void> {
  for (;;) {
    try {
      return void (await send())
    } catch {
      if (stopping.aborted) return
      await delay(RETRY_MS)
    }
  }
}

function message(source: string, random: () => number, more: Record<string, string> = {}) {
  const id = uuid7()
  const tenantid = TENANTS[Math.floor(random() * TENANTS.length)]!
  const attributes: Record<string, string> = {
    specversion: '1.0',
    id,
    source,
    type: `studio.lerian.${source}.thing.happened`,
    time: new Date().toISOString(),
    schemaversion: '1.0.0',
    resourcetype: 'thing',
    eventtype: 'happened',
    tenantid,
    ...more,
  }
  const headers = new Map(
    Object.entries(attributes).map(([name, value]) => [Buffer.from(`ce-${name}`), Buffer.from(value)]),
  )
  const partition = Math.floor(random() * PARTITIONS)
  return { id, topic: topicOf(source), partition, key: Buffer.from(id), value: Buffer.from(`{"id":"${id}"}`), headers }
}
