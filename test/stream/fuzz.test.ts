// Random trouble for a group of members on the development broker: they come and go, writes fail or are slow, the coordinator refuses,
// partitions fail, connections are cut, a topic appears. At the end nothing may be missing, no committed offset may ever have gone
// back, and none may have been committed by a member that did not own the partition. STREAM_FUZZ_SEED repeats a run's choices (not
// its timing); STREAM_FUZZ_STEPS makes it longer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { silentLog } from '../../src/base/log.ts'
import type { BatchHandler, Stream } from '../../src/stream/stream.ts'
import { seededRandom } from '../support/random.ts'
import { observedBroker, testStream, Watch, type ObservedBroker } from '../support/stream.ts'

const seed = Number(process.env['STREAM_FUZZ_SEED'] ?? Date.now() % 1_000_000)
const steps = Number(process.env['STREAM_FUZZ_STEPS'] ?? 70)
const topics = ['lerian.streaming.a', 'lerian.streaming.b']
const late = 'lerian.streaming.c'
const api = { OFFSET_COMMIT: 8, HEARTBEAT: 12 }
const refusals = { commit: [22, 27, 25, 16, 14], heartbeat: [27, 22, 25, 16], partition: [6, 56, -1] }
const mostMembers = 4

test(`nothing is lost, goes back, or is committed by a stranger: seed ${seed}`, async () => {
  const random = seededRandom(seed)
  const watch = new Watch()
  await using kafka = await observedBroker(watch)
  kafka.broker.topics.create(topics[0] as string, 4)
  kafka.broker.topics.create(topics[1] as string, 3)
  const written = new Map<string, number>()
  const write = clumsyDatabase(random, written, watch)
  const members: (Stream & AsyncDisposable)[] = []
  await using scope = new AsyncDisposableStack()
  const join = async (): Promise<void> => {
    const member = scope.use(testStream({ brokers: kafka.brokers, handler: write, log: silentLog, batchRecords: 25 }))
    members.push(member)
    await member.start()
  }
  await join()
  let produced = 0
  for (let step = 0; step < steps; step++) {
    produced += await produceSome(kafka, random)
    await trouble({ kafka, random, members, join })
    // Going on only as records come through keeps the trouble spread over the run, however fast the machine is.
    await watch.until(() => written.size >= produced - 250 * random())
  }
  await watch.until(() => allCommitted(kafka))
  assert.equal(written.size, produced, 'every record is written')
  assert.deepEqual(stepsBack(kafka), [], 'no committed offset goes back')
  assert.deepEqual(kafka.foreign, [], 'nobody commits what is not theirs')
})

/** Takes its time, fails now and then, and may or may not notice that the partition has been lost meanwhile. */
function clumsyDatabase(random: () => number, written: Map<string, number>, watch: Watch): BatchHandler {
  return async ({ topic, partition, records }, revoked) => {
    await delay(random() < 0.1 ? 800 : 5 + random() * 60)
    if (random() < 0.08) throw new Error('the database is away')
    if (revoked.aborted && random() < 0.5) throw new Error('rolled back')
    for (const { position } of records) {
      const place = `${topic}:${partition}:${position?.offset}`
      written.set(place, (written.get(place) ?? 0) + 1)
    }
    watch.touch()
  }
}

async function produceSome(kafka: ObservedBroker, random: () => number): Promise<number> {
  const known = kafka.broker.topics.all().filter(({ name }) => [...topics, late].includes(name))
  const { name, partitions } = known[Math.floor(random() * known.length)] as (typeof known)[number]
  const values = Array.from({ length: 1 + Math.floor(random() * 60) }, (_, index) => `${index}`)
  // Straight into the log: what the producer does about trouble is not the matter here.
  await kafka.append(name, Math.floor(random() * partitions.length), ...values)
  return values.length
}

interface Scene {
  kafka: ObservedBroker
  random: () => number
  members: (Stream & AsyncDisposable)[]
  join: () => Promise<void>
}

async function trouble({ kafka, random, members, join }: Scene): Promise<void> {
  const { faults, topics: all } = kafka.broker
  const any = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)] as Item
  const dice = random()
  if (dice < 0.16 && members.length < mostMembers) await join()
  else if (dice < 0.26 && members.length > 1) await members.shift()?.stop(AbortSignal.timeout(2_000))
  else if (dice < 0.3 && members.length > 1) await members.shift()?.stop(AbortSignal.abort())
  else if (dice < 0.42) faults.fail(api.OFFSET_COMMIT, any(refusals.commit))
  else if (dice < 0.52) faults.fail(api.HEARTBEAT, any(refusals.heartbeat))
  else if (dice < 0.6) kafka.broker.dropConnections()
  else if (dice < 0.65) all.create(late, 2)
  else if (dice < 0.68) all.grow(topics[1] as string, 4)
  else if (dice < 0.76) failForAWhile(any(all.get(topics[0] as string)?.partitions ?? []), any(refusals.partition))
}

function failForAWhile(partition: { fault: number }, errorCode: number): void {
  partition.fault = errorCode
  setTimeout(() => {
    partition.fault = 0
  }, 500)
}

function allCommitted(kafka: ObservedBroker): boolean {
  const ours = kafka.broker.topics.all().filter(({ name }) => [...topics, late].includes(name))
  return ours.every(({ name, partitions }) =>
    partitions.every(({ end }, partition) => end === 0n || kafka.committed(name, partition) === end),
  )
}

function stepsBack(kafka: ObservedBroker): string[] {
  const furthest = new Map<string, bigint>()
  return kafka.commits
    .filter(({ errorCode }) => errorCode === 0)
    .flatMap(({ topic, partition, offset }) => {
      const place = `${topic}:${partition}`
      const before = furthest.get(place) ?? -1n
      furthest.set(place, offset)
      return offset < before ? [`${place} from ${before} to ${offset}`] : []
    })
}
