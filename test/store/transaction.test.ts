// A transaction ends one way or the other, whatever happens to its connection.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { migrate } from '../../src/store/migrate.ts'
import { isOutage } from '../../src/store/outage.ts'
import { createPool } from '../../src/store/pool.ts'
import { transaction } from '../../src/store/transaction.ts'
import { testDatabase } from '../support/database.ts'

test('what it throws is rolled back', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const broken = transaction(pool, async (client) => {
    await client.query("insert into tenant_turn values ('acme')")
    throw new Error('no')
  })
  await assert.rejects(broken, /^Error: no$/)
  assert.equal((await pool.query('select from tenant_turn')).rowCount, 0)
})

test('a connection that is cut between two statements fails the transaction, and nothing else; the pool goes on', async () => {
  await using database = await testDatabase()
  const { pool } = database
  const broken = transaction(pool, async (client) => {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    await pool.query('select pg_terminate_backend($1)', [rows[0]?.pid])
    // Its end arrives while no statement runs, when nobody waits for an answer that could carry the error.
    while (client.listenerCount('error') > 0 && !(await isGone(pool, rows[0]?.pid))) await delay(5)
    await delay(20)
    await client.query('select 1')
  })
  await assert.rejects(broken)
  assert.deepEqual((await pool.query('select 1 as one')).rows, [{ one: 1 }])
})

test('a connection that is cut in the very moment in which it is ready fails what wanted it, and nothing else', async (t) => {
  await using database = await testDatabase()
  const dsn = await cutWhenReady(t, database.dsn, 1)
  const pool = createPool({ dsn, maxConnections: 1, applicationName: 'test', onError: () => undefined })
  t.after(() => pool.end())
  await assert.rejects(
    transaction(pool, async (client) => await client.query('select 1')),
    isOutage,
  )
})

test('a migration whose connection is cut says that the database is away, whatever it was doing', async (t) => {
  await using database = await testDatabase()
  for (const answers of [1, 2, 3, 4])
    await assert.rejects(migrate(await cutWhenReady(t, database.dsn, answers)), isOutage)
})

/** The same database by a way that ends, together with the server's `answers`th "ready for query", as a server does that shuts down. */
async function cutWhenReady(t: TestContext, dsn: string, answers: number): Promise<string> {
  const { hostname, port } = new URL(dsn)
  const server = createServer((socket) => {
    const upstream = connect(Number(port), hostname)
    let left = answers
    socket.on('error', () => upstream.destroy()).pipe(upstream)
    upstream.on('error', () => socket.destroy())
    upstream.on('data', (chunk: Buffer) => {
      const isReady = chunk.subarray(-6, -1).equals(READY)
      if (!isReady || --left > 0) return socket.write(chunk)
      upstream.destroy()
      return socket.end(Buffer.concat([chunk, SHUTTING_DOWN]))
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  return Object.assign(new URL(dsn), { host: `127.0.0.1:${(server.address() as AddressInfo).port}` }).href
}

const READY = Buffer.from('Z\0\0\0\x05')
const FIELDS = Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
const SHUTTING_DOWN = Buffer.concat([Buffer.from('E\0\0\0'), Buffer.from([FIELDS.length + 4]), FIELDS])

async function isGone(
  pool: { query: (text: string, values: unknown[]) => Promise<{ rowCount: number | null }> },
  pid: unknown,
) {
  return (await pool.query('select from pg_stat_activity where pid = $1', [pid])).rowCount === 0
}
