// When a destination that stays broken is switched off: the truth table, by the real engine, to the millisecond.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { drain, testDispatcher } from '../support/dispatch.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'
import { delivered, failed, scriptedSink } from '../support/scripted-sink.ts'

const HOUR = 3_600_000
const [WINDOW, SPREAD] = [120 * HOUR, 12 * HOUR]

type Moment = { at: number; event: 'fails' | 'succeeds' } | { at: number; looks: 'on' | 'off' }

/** Attempts at these moments since the start, one event each, and what the subscription is after a tick at others. */
async function live(moments: readonly Moment[], enabled = true): Promise<void> {
  await using database = await testDatabase()
  const { pool } = database
  const start = Date.parse('2026-05-14T13:00:00Z')
  const clock = manualClock(start)
  const sink = scriptedSink()
  const autodisable = { enabled, windowMs: WINDOW, spreadMs: SPREAD }
  const dispatcher = testDispatcher({ pool, clock, sink, options: { autodisable } })
  await insertSubscription(pool, { retrySchedule: [0] })
  for (const moment of moments) {
    clock.moveTo(start + moment.at)
    if ('event' in moment) {
      sink.script = () => (moment.event === 'fails' ? failed() : delivered)
      await arrive(pool, [anEvent()], new Date(clock.now()))
      await drain(dispatcher)
      continue
    }
    await dispatcher.tick()
    const { rows } = await pool.query(
      'select enabled, verification_state, disabled_at, disabled_reason is not null as has_reason from subscription',
    )
    const isOn = moment.looks === 'on'
    const disabled_at = isOn ? null : new Date(clock.now())
    const expected = { enabled: isOn, verification_state: 'active', disabled_at, has_reason: !isOn }
    assert.deepEqual(rows, [expected], `at ${moment.at / HOUR} h`)
  }
}

const fails = (at: number): Moment => ({ at, event: 'fails' })
const succeeds = (at: number): Moment => ({ at, event: 'succeeds' })
const isOn = (at: number): Moment => ({ at, looks: 'on' })
const isOff = (at: number): Moment => ({ at, looks: 'off' })

test('sustained, but not spread: it stays on, however long the silence', async () => {
  await live([fails(0), isOn(WINDOW), isOn(10 * WINDOW)])
})

test('spread, but not sustained: it stays on', async () => {
  await live([fails(0), fails(100 * HOUR), isOn(100 * HOUR), isOn(WINDOW - 1)])
})

test('sustained and spread: it is switched off, at the bound and not a millisecond before', async () => {
  await live([fails(0), fails(SPREAD), isOn(WINDOW - 1), isOff(WINDOW)])
})

test('spread a millisecond short of the bound: it stays on, until a failure later in the streak', async () => {
  await live([fails(0), fails(SPREAD - 1), isOn(WINDOW), isOn(2 * WINDOW), fails(3 * WINDOW), isOff(3 * WINDOW)])
})

test('one success in the middle begins everything anew', async () => {
  const anew = 7 * HOUR
  await live([
    fails(0),
    succeeds(6 * HOUR),
    fails(anew),
    fails(SPREAD),
    isOn(WINDOW),
    fails(anew + SPREAD),
    isOn(anew + WINDOW - 1),
    isOff(anew + WINDOW),
  ])
})

test('the last attempt a success: it stays on', async () => {
  await live([fails(0), fails(SPREAD), succeeds(WINDOW - 1), isOn(WINDOW), isOn(10 * WINDOW)])
})

test('with the mechanism turned off nothing switches it off', async () => {
  await live([fails(0), fails(SPREAD), isOn(WINDOW), isOn(10 * WINDOW)], false)
})
