import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createRegistry } from '../../src/base/metrics.ts'
import { Reconciler } from '../../src/stream/reconciler.ts'
import { findingsOf, reportsOf } from '../../src/stream/standing.ts'
import type { TopicStanding } from '../../src/stream/stream.ts'
import { deadLetterSource, factSource } from '../../src/stream/topics.ts'
import { manualClock } from '../support/clock.ts'
import { readableLog, Watch } from '../support/stream.ts'

const LENDER = 'lerian.streaming.lender'
const LEDGER = 'lerian.streaming.ledger'

/** What both streams say of a broker that has these topics; `sick`: with what the broker says of them. */
function seen(names: readonly string[], sick: Record<string, string> = {}) {
  const standings = (accepts: (topic: string) => boolean) =>
    names.map((topic): TopicStanding => {
      const problem = (accepts(topic) && sick[topic]) || null
      const state = !accepts(topic) ? 'foreign' : problem === null ? 'subscribed' : 'sick'
      return { topic, state, problem, partitions: 3 }
    })
  return {
    facts: standings((topic) => factSource(topic) !== null),
    deadLetters: standings((topic) => deadLetterSource(topic) !== null),
  }
}

describe('a topic', () => {
  test('stands as the stream says that reads it, or as its name says', () => {
    const names = [
      LENDER,
      `${LENDER}.dlq`,
      `${LENDER}.commands`,
      'other',
      '__consumer_offsets',
      LEDGER,
      `${LEDGER}.dlq`,
    ]
    const sick = { [LEDGER]: 'no leader', [`${LENDER}.dlq`]: 'no replica' }
    const reports = reportsOf({ ...seen(names, sick), limits: new Map() })
    assert.deepEqual(
      reports.map(({ topic, kind, state, problem }) => [topic, kind, state, problem]),
      [
        ['__consumer_offsets', 'other', 'foreign', null],
        [LEDGER, 'facts', 'sick', 'no leader'],
        [`${LEDGER}.dlq`, 'dead_letters', 'subscribed', null],
        [LENDER, 'facts', 'subscribed', null],
        [`${LENDER}.commands`, 'commands', 'ignored', null],
        [`${LENDER}.dlq`, 'dead_letters', 'sick', 'no replica'],
        ['other', 'other', 'foreign', null],
      ],
    )
  })

  const room = (names: readonly string[], limits: Record<string, number>) => {
    const reports = reportsOf({ ...seen(names), limits: new Map(Object.entries(limits)) })
    return reports.find(({ topic }) => topic === LENDER)?.deadLetters
  }
  const both = [LENDER, `${LENDER}.dlq`]

  test('of facts has room for its dead letters where they may be as large as it', () => {
    assert.equal(room(both, { [LENDER]: 1000, [`${LENDER}.dlq`]: 1000 }), 'ok')
    assert.equal(room(both, { [LENDER]: 1000, [`${LENDER}.dlq`]: 999 }), 'too_small')
    assert.equal(room([LENDER], { [LENDER]: 1000 }), 'missing')
    assert.equal(room([LENDER, `${LEDGER}.dlq`], {}), 'missing')
  })

  test('whose limits may not be read is in an unknown state, and that is no finding', () => {
    assert.equal(room(both, {}), 'unknown')
    assert.equal(room(both, { [LENDER]: 1000 }), 'unknown')
    assert.equal(room(both, { [`${LENDER}.dlq`]: 1 }), 'unknown')
    assert.equal(findingsOf(reportsOf({ ...seen(both), limits: new Map() })).size, 0)
  })

  test('of somebody else is no finding', () => {
    assert.equal(findingsOf(reportsOf({ ...seen(['other', `${LENDER}.commands`]), limits: new Map() })).size, 0)
  })
})

function watched(start: ReturnType<typeof seen>) {
  const watch = new Watch()
  const log = readableLog(watch)
  const clock = manualClock()
  const metrics = createRegistry({ processMetrics: false })
  const broker = { topics: start, limits: new Map<string, number>(), answers: true, asked: 0 }
  const reconciler = new Reconciler({
    facts: { topics: () => broker.topics.facts },
    deadLetters: { topics: () => broker.topics.deadLetters },
    limitsOf: async () => {
      broker.asked++
      watch.touch()
      if (!broker.answers) throw new Error('nobody there')
      return broker.limits
    },
    everyMs: 300_000,
    clock,
    log: log.log,
    metrics,
  })
  const count = async (standing: string): Promise<number | undefined> => {
    const [metric] = await metrics.getMetricsAsJSON()
    return metric?.values.find(({ labels }) => (labels as { standing?: string }).standing === standing)?.value
  }
  return { watch, log, clock, broker, reconciler, count }
}

describe('the reconciler', () => {
  test('tells of each finding once when it is found and once when it is over, and counts', async () => {
    const { log, broker, reconciler, count } = watched(seen([LENDER, LEDGER, `${LEDGER}.dlq`, 'other']))
    broker.limits = new Map([
      [LEDGER, 2000],
      [`${LEDGER}.dlq`, 1000],
    ])
    for (let looks = 0; looks < 3; looks++) await reconciler.look()
    assert.deepEqual(log.messages('warn'), [
      `not every record of the topic ${LEDGER} fits among its dead letters`,
      `the topic ${LENDER} has none for its dead letters`,
    ])
    const counts = async () =>
      await Promise.all(['subscribed', 'sick', 'foreign', 'dead_letters_missing', 'dead_letters_too_small'].map(count))
    assert.deepEqual(await counts(), [3, 0, 1, 1, 1])
    broker.topics = seen([LENDER, `${LENDER}.dlq`, LEDGER, `${LEDGER}.dlq`], { [LENDER]: 'no leader' })
    broker.limits = new Map([
      [LEDGER, 2000],
      [`${LEDGER}.dlq`, 2000],
    ])
    for (let looks = 0; looks < 3; looks++) await reconciler.look()
    assert.deepEqual(log.messages('warn').slice(2), [`the topic ${LENDER} is sick`])
    assert.equal(log.messages().filter((message) => message.endsWith(': over')).length, 2)
    assert.deepEqual(await counts(), [3, 1, 0, 0, 0])
    assert.equal(await count('dead_letters_unknown'), 1)
  })

  test('that gets no answer keeps what it knew, and goes on', async () => {
    const { broker, reconciler } = watched(seen([LENDER]))
    broker.limits = new Map([[LENDER, 7]])
    await reconciler.look()
    broker.answers = false
    await reconciler.look()
    assert.equal(reconciler.topics()[0]?.maxMessageBytes, 7)
  })

  test('looks soon while no topic has been seen, and then at its interval; a stop ends it', async () => {
    const { watch, clock, broker, reconciler } = watched(seen([]))
    await reconciler.start()
    await watch.until(() => broker.asked === 1)
    broker.topics = seen([LENDER])
    // Each look is asked of the broker before it sleeps: time is moved until the next one is asked.
    const looksWithin = async (looks: number, ms: number) => {
      for (let passed = 0; passed < ms && broker.asked < looks; passed += 1000) {
        clock.advance(1000)
        await new Promise((resolve) => setImmediate(resolve))
      }
      return broker.asked >= looks
    }
    assert.equal(await looksWithin(2, 6_000), true)
    assert.equal(await looksWithin(3, 290_000), false)
    assert.equal(await looksWithin(3, 20_000), true)
    await reconciler.stop()
  })
})
