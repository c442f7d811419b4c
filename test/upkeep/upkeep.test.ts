// The chores that one replica does for all: who does them, and what happens when its connection is lost.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { systemClock, type Clock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import type { Pool } from '../../src/store/pool.ts'
import { findHolder, listRuns } from '../../src/store/singleton.ts'
import { Upkeep, UPKEEP_LOCK, type Chore } from '../../src/upkeep/upkeep.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'

/** A hundred times as fast: two seconds between two looks are twenty milliseconds. */
const quick: Clock = {
  now: () => Date.now(),
  sleep: async (ms, signal) => await systemClock.sleep(ms / 100, signal),
}

const chore = (name: string, run: Chore['run'], more: Partial<Chore> = {}): Chore => ({
  name,
  everyMs: 3_600_000,
  run,
  ...more,
})

function upkeep(
  t: TestContext,
  database: TestDatabase,
  given: { holder: string; chores: Chore[]; onLost?: () => void },
) {
  const made = new Upkeep({ dsn: database.dsn, clock: quick, log: silentLog, ...given })
  t.after(() => made.stop(AbortSignal.abort()))
  return made
}

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await holds()); await delay(10)) {
    assert.ok(Date.now() < deadline, `never: ${what}`)
  }
}

const holderOf = async (pool: Pool): Promise<string | null> => (await findHolder(pool, UPKEEP_LOCK))?.holder ?? null

const cutConnection = async (pool: Pool, holder: string): Promise<void> =>
  void (await pool.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [
    holder,
  ]))

test('one of two does the chores, and is known; when it stops, the other one takes over', async (t) => {
  const database = await testDatabase()
  const { pool } = database
  const did: string[] = []
  const by = (holder: string) => ({
    holder,
    chores: [chore('sweep', async () => (did.push(holder), { by: holder })), chore('quiet', async () => null)],
  })
  const first = upkeep(t, database, by('first'))
  await first.start()
  assert.deepEqual(did, ['first'])
  assert.equal(await holderOf(pool), 'first')
  const second = upkeep(t, database, by('second'))
  await second.start()
  assert.deepEqual(did, ['first'], 'the second one waits')
  await first.stop(new AbortController().signal)
  await until(() => did.length === 2, 'the second one takes over')
  assert.deepEqual(did, ['first', 'second'])
  await until(async () => (await listRuns(pool)).every((run) => run.holder === 'second'), 'it is written down')
  const [quiet, sweep] = await listRuns(pool)
  assert.deepEqual([quiet?.done, sweep?.done, sweep?.error], [null, { by: 'second' }, null])
})

test('a start does not wait for chores that the one who holds the lock does not know', async (t) => {
  const database = await testDatabase()
  const known = chore('partitions', async () => null)
  await upkeep(t, database, { holder: 'older', chores: [known] }).start()
  // Its patience never ends.
  const clock = {
    ...quick,
    sleep: async (ms: number, signal?: AbortSignal) => await quick.sleep(ms * (ms < 10_000 ? 1 : 1e6), signal),
  }
  const chores = [known, chore('new', async () => assert.fail('done twice'))]
  const newer = new Upkeep({ dsn: database.dsn, holder: 'newer', clock, log: silentLog, chores })
  t.after(() => newer.stop(AbortSignal.abort()))
  await newer.start()
})

test('a connection that is lost ends the chore under way, and another replica does it', async (t) => {
  const database = await testDatabase()
  const { pool } = database
  let lost = 0
  const written: string[] = []
  const by = (holder: string): Chore =>
    chore('long', async (db) => {
      await db.query(`insert into tenant_turn (tenant_id) values ('${holder}')`)
      if (holder === 'first') await db.query('select pg_sleep(100)')
      written.push(holder)
      return null
    })
  const first = upkeep(t, database, { holder: 'first', chores: [by('first')], onLost: () => lost++ })
  const starting = first.start()
  await until(async () => (await holderOf(pool)) === 'first', 'the first one is at it')
  const second = upkeep(t, database, { holder: 'second', chores: [by('second')] })
  await Promise.all([starting, second.start()])
  await first.stop(AbortSignal.abort())
  await until(() => written.length > 0, 'the second one has done it')
  assert.deepEqual(written, ['second'])
  assert.equal(lost, 1)
  const { rows } = await pool.query<{ tenant_id: string }>('select tenant_id from tenant_turn')
  assert.deepEqual(rows, [{ tenant_id: 'second' }], 'what the first one had begun is undone')
})

test('cut off by the database, it connects anew and goes on, whoever of them', async (t) => {
  const database = await testDatabase()
  const { pool } = database
  let times = 0
  const counting = chore('count', async () => (times++, null))
  const only = upkeep(t, database, { holder: 'only', chores: [counting] })
  await only.start()
  assert.equal(times, 1)
  await cutConnection(pool, 'only')
  await until(() => times === 2, 'it has connected anew')
  assert.equal(await holderOf(pool), 'only')
})

test('a chore that fails is told of and tried again, and holds up no other', async (t) => {
  const database = await testDatabase()
  const { pool } = database
  let tries = 0
  const failing = chore(
    'failing',
    async (db) => {
      if (tries++ < 2) await db.query('select 1/0')
      return null
    },
    { everyMs: 50 },
  )
  const broken = chore('broken', async () => await Promise.reject(new TypeError('a bug')))
  const well = chore('well', async () => ({ done: true }))
  await upkeep(t, database, { holder: 'only', chores: [broken, failing, well] }).start()
  const errorOf = async (name: string): Promise<string | null | undefined> =>
    (await listRuns(pool)).find((run) => run.name === name)?.error
  assert.equal(await errorOf('broken'), 'a bug')
  assert.equal(await errorOf('well'), null)
  await until(async () => tries > 2 && (await errorOf('failing')) === null, 'it works the third time')
})

test('a stepwise chore commits each step, and sees the stop', async (t) => {
  const database = await testDatabase()
  const { pool } = database
  const steps = chore(
    'steps',
    async (db, _now, stopping) => {
      for (let n = 0; !stopping.aborted; n++) {
        await db.query('insert into tenant_turn (tenant_id) values ($1)', [`step ${n}`])
        await delay(1)
      }
      return null
    },
    { stepwise: true },
  )
  const running = upkeep(t, database, { holder: 'only', chores: [steps] })
  const starting = running.start()
  await until(
    async () => ((await pool.query('select from tenant_turn')).rowCount ?? 0) > 3,
    'its steps can be seen while it runs',
  )
  await running.stop(new AbortController().signal)
  await starting
  assert.equal((await listRuns(pool)).length, 1)
})
