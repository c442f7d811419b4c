// What only real processes can show: crashes in mid-attempt, kill -9, and two processes on one database.
import assert from 'node:assert/strict'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from '../../src/store/pool.ts'
import { testDatabase } from '../support/database.ts'
import { anEvent, arrive, insertSubscription } from '../support/fixtures.ts'

/** A second is a quarter of a minute: leases run out while a test waits. */
const SPEED = 15

interface Sent {
  tenantId: string
  eventId: string
  number: number
  at: number
}

function dispatching(
  t: TestContext,
  dsn: string,
  given: { epoch: number; onSent?: (sent: Sent) => void },
): ChildProcess {
  const child = fork(new URL('./crashing-hub.ts', import.meta.url), [dsn, String(given.epoch), String(SPEED)], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  if (given.onSent) child.on('message', given.onSent)
  t.after(() => child.kill('SIGKILL'))
  return child
}

/** Waits, as a person who watches does: looks until it holds. */
async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 90_000; !(await holds()); await delay(50)) {
    assert.ok(Date.now() < deadline, `never: ${what}`)
  }
}

async function count(pool: Pool, text: string): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(text)
  return rows[0]?.n ?? 0
}

/** 200 healthy events of 20 tenants with two subscriptions each, and one that is not; the crash counts are watched on the way. */
async function runToTheEnd(t: TestContext, given: { data: string; killAfterSent: readonly number[] }) {
  const { pool, dsn } = await testDatabase()
  for (let tenant = 0; tenant < 20; tenant++) {
    for (const eventTypes of [['loan.*'], ['account.*']]) {
      await insertSubscription(pool, { tenantId: `tenant-${tenant}`, timeoutMs: 1_000, eventTypes })
    }
  }
  const healthy = Array.from({ length: 200 }, (_, n) =>
    anEvent({ tenantId: `tenant-${n % 20}`, resourceType: n % 40 < 20 ? 'loan' : 'account' }),
  )
  const special = anEvent({ tenantId: 'tenant-7', data: Buffer.from(given.data) })
  await arrive(pool, [...healthy.slice(0, 60), special, ...healthy.slice(60)], new Date())
  const epoch = Date.now()
  const stopping = new AbortController()
  let starts = 0
  const supervising = (async () => {
    while (!stopping.signal.aborted) {
      const killAfter = given.killAfterSent[starts++] ?? Infinity
      let sent = 0
      const child = dispatching(t, dsn, { epoch, onSent: () => ++sent >= killAfter && child.kill('SIGKILL') })
      stopping.signal.addEventListener('abort', () => child.kill('SIGKILL'))
      await once(child, 'exit')
    }
  })()
  const crashes = new Map<string, number>()
  await until(async () => {
    const { rows } = await pool.query<{ ce_id: string; crashes: number }>('select ce_id, crashes from delivery')
    for (const row of rows) crashes.set(row.ce_id, Math.max(crashes.get(row.ce_id) ?? 0, row.crashes))
    return (await count(pool, 'select count(*)::int as n from delivery_history')) === 201
  }, 'all 201 finished')
  stopping.abort()
  await supervising
  crashes.delete(special.id)
  const blamed = [...crashes.values()].filter((n) => n > 0)
  t.diagnostic(
    `${starts} processes, ${blamed.length} of 200 healthy ones blamed, ${Math.max(0, ...blamed)} times at most`,
  )
  const { rows } = await pool.query('select state, reason, crashes from delivery_history where ce_id = $1', [
    special.id,
  ])
  const delivered = await count(pool, "select count(*)::int as n from delivery_history where state = 'delivered'")
  return { special: rows, delivered, mostBlamed: Math.max(0, ...blamed) }
}

test('a payload that crashes its process is poisoned after exactly five reclaims; no healthy one is blamed twice, all are delivered', async (t) => {
  const end = await runToTheEnd(t, { data: 'toxic', killAfterSent: [] })
  assert.deepEqual(end.special, [{ state: 'dead_lettered', reason: 'poisoned', crashes: 5 }])
  assert.equal(end.delivered, 200)
  assert.ok(end.mostBlamed <= 1, `a healthy one was blamed ${end.mostBlamed} times`)
})

test('killed from outside again and again, it poisons nothing and delivers everything', async (t) => {
  const end = await runToTheEnd(t, { data: 'healthy', killAfterSent: [3, 30, 10, 50, 20, 5, 40, 1] })
  assert.equal(end.delivered, 201)
})

test('of two processes one opens the breaker and both shed; while it cools down nothing is sent, and then one probe', async (t) => {
  const { pool, dsn } = await testDatabase()
  const destinationKey = 'broken'
  for (let n = 0; n < 12; n++) {
    await insertSubscription(pool, { destinationKey, timeoutMs: 1_000, retrySchedule: Array(12).fill(1_000) })
  }
  const epoch = Date.now()
  const sent: Sent[] = []
  for (let process = 0; process < 2; process++) dispatching(t, dsn, { epoch, onSent: (one) => sent.push(one) })
  await arrive(
    pool,
    Array.from({ length: 20 }, () => anEvent({ data: Buffer.from('broken') })),
    new Date(),
  )
  await until(
    async () => (await count(pool, "select coalesce(max(opened), 0) as n from destination where state = 'open'")) >= 4,
    'the breaker opened four times in a row',
  )
  const times = sent.map(({ at }) => at).toSorted((a, b) => a - b)
  const bursts: number[][] = []
  for (const at of times) {
    const last = bursts.at(-1)
    // Cool-downs are 30 s and more; attempts that were in the air together lie closer.
    if (last && at - last.at(-1)! < 20_000) last.push(at)
    else bursts.push([at])
  }
  const [first = [], ...probes] = bursts
  assert.ok(
    first.length >= 5 && first.length <= 24,
    `${first.length} attempts before it opened: at most one of each lane and process more`,
  )
  assert.deepEqual(
    probes.slice(0, 3).map(({ length }) => length),
    [1, 1, 1],
  )
  assert.equal(
    await count(pool, 'select coalesce(sum(attempts), 0)::int as n from delivery'),
    times.length,
    'a shed is no attempt',
  )
})
