import assert from 'node:assert/strict'
import { beforeEach, mock, test } from 'node:test'
import { silentLog } from '../../../src/base/log.ts'
import { createCounter } from '../../../src/control/limits/counter.ts'
import { FailedLogins } from '../../../src/control/limits/failed-logins.ts'
import { Troubles } from '../../../src/base/troubles.ts'
import { manualClock } from '../../support/clock.ts'

beforeEach(() => {
  mock.timers.reset()
  mock.timers.enable({ apis: ['Date'], now: 1_000_000 })
})

function failedLogins(max = 3) {
  const clock = manualClock()
  const deps = { redis: null, troubles: new Troubles(silentLog, clock) }
  const logins = new FailedLogins(createCounter({ name: 'failed-auth', max, windowMs: 60_000 }, deps, true), clock)
  const advance = (ms: number): void => {
    clock.advance(ms)
    mock.timers.tick(ms)
  }
  return { logins, advance }
}

const caller = (ip: string, credential?: string) => ({
  ip,
  headers: credential === undefined ? {} : { authorization: `Bearer ${credential}` },
})

test('an address that has failed too often is not looked at, until its window ends', async () => {
  const { logins, advance } = failedLogins()
  for (let i = 0; i < 3; i++) {
    assert.equal(logins.blockedFor(caller('203.0.113.7', `guess ${i}`)), 0)
    await logins.failed(caller('203.0.113.7', `guess ${i}`))
    advance(1_000)
  }
  assert.equal(logins.blockedFor(caller('203.0.113.7', 'guess 3')), 57_000)
  assert.equal(logins.blockedFor(caller('203.0.113.8', 'guess 3')), 0)
  advance(57_000)
  assert.equal(logins.blockedFor(caller('203.0.113.7', 'guess 3')), 0)
})

test('whoever has a /64 of IPv6 has one address', async () => {
  const { logins } = failedLogins()
  for (let i = 0; i < 3; i++) await logins.failed(caller(`2001:db8::${i + 1}`, 'guess'))
  assert.ok(logins.blockedFor(caller('2001:db8::ffff', 'guess')) > 0)
})

test('a credential that was right before goes on being looked at, from the same address too, as long as it is right', async () => {
  const { logins } = failedLogins()
  logins.succeeded(caller('203.0.113.7', 'the right one'))
  for (let i = 0; i < 5; i++) await logins.failed(caller('203.0.113.7', `guess ${i}`))
  assert.equal(logins.blockedFor(caller('203.0.113.7', 'the right one')), 0)
  assert.ok(logins.blockedFor(caller('203.0.113.7', 'guess 9')) > 0)
  await logins.failed(caller('203.0.113.7', 'the right one'))
  assert.ok(logins.blockedFor(caller('203.0.113.7', 'the right one')) > 0)
})

test('a request without a credential is no guess, by whatever header credentials come', async () => {
  const { logins } = failedLogins(1)
  await logins.failed(caller('203.0.113.7'))
  assert.equal(logins.blockedFor(caller('203.0.113.7', 'first')), 0)
  await logins.failed({ ip: '203.0.113.7', headers: { 'x-api-key': 'guess' } })
  assert.ok(logins.blockedFor(caller('203.0.113.7', 'second')) > 0)
  assert.equal(logins.blockedFor(caller('203.0.113.7')), 0)
})
