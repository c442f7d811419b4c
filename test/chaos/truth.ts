// What Kafka itself says, read by the client library's own consumer, which the hub does not use: everything that was written, and how
// the group's offsets move. That consumer lets some aborted events through, so the producers say which those are.
import { setTimeout as delay } from 'node:timers/promises'
import { Admin, Consumer } from '@platformatic/kafka'
import { SOURCES, topicOf } from './producers.ts'

const TOPICS = Object.values(SOURCES).map(topicOf)
const GROUP = 'streaming-hub'
const READ_COMMITTED = 1
/** No record for so long: everything has been read. */
const SILENCE_MS = 3_000

/** Ids of the events (no system events) of each partition, in its order; some of aborted transactions are among them. */
export async function readKafka(brokers: string[]): Promise<Map<string, string[]>> {
  const consumer = new Consumer({ clientId: 'truth', groupId: `truth-${Date.now()}`, bootstrapBrokers: brokers })
  const stream = await consumer.consume({
    topics: TOPICS,
    mode: 'earliest',
    isolationLevel: READ_COMMITTED,
    autocommit: false,
  })
  const found = new Map<string, string[]>()
  let last = Date.now()
  stream.on('data', ({ topic, partition, headers }) => {
    last = Date.now()
    const attributes = new Map([...headers].map(([name, value]) => [String(name), String(value)]))
    if (attributes.get('ce-systemevent') === 'true') return
    const place = `${topic}/${partition}`
    found.set(place, [...(found.get(place) ?? []), attributes.get('ce-id') ?? ''])
  })
  while (Date.now() - last < SILENCE_MS) await delay(100)
  await stream.close()
  await consumer.close(true)
  return found
}

/** Looks at the group's committed offsets all the time; `stop` answers how often one went back. */
export function watchOffsets(brokers: string[]) {
  const highest = new Map<string, bigint>()
  let regressions = 0
  const stop = new AbortController()
  const look = async (admin: Admin): Promise<void> => {
    const groups = await admin.listConsumerGroupOffsets({ groups: [GROUP] })
    for (const { topics } of groups) {
      for (const { name, partitions } of topics) {
        for (const { partitionIndex, committedOffset } of partitions) {
          const place = `${name}/${partitionIndex}`
          const before = highest.get(place) ?? -1n
          if (committedOffset >= 0n && committedOffset < before) regressions++
          if (committedOffset > before) highest.set(place, committedOffset)
        }
      }
    }
  }
  const watching = (async () => {
    const admin = new Admin({ clientId: 'watch', bootstrapBrokers: brokers, retries: 0 })
    while (!stop.signal.aborted) {
      await look(admin).catch(() => undefined) // the broker may be away
      await delay(200)
    }
    await admin.close()
  })()
  return {
    stop: async (): Promise<number> => {
      stop.abort()
      await watching
      return regressions
    },
  }
}
