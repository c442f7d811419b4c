// The PostgreSQL that the tests share: one server under `.cache/`, not durable, joined by every test process that runs at the
// same time. Each member holds a shared advisory lock; the last one to leave tidies up and stops the server. Members that were
// killed lose their lock with their connection, so the next run finds the server and takes it over.
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { silentLog } from '../../src/base/log.ts'
import { ensureServer } from '../../dev/postgres.ts'

const DATA_DIR = fileURLToPath(new URL('../../.cache/test-postgres/', import.meta.url))
const MEMBERS = 7_301_019

export interface Membership {
  adminDsn: string
  /** The last member stops the server. */
  leave(): Promise<void>
}

/** Starts the shared server or finds it running. */
export async function joinTestServer(): Promise<Membership> {
  while (true) {
    const server = await ensureServer({ dataDir: DATA_DIR, log: silentLog, durable: false })
    const member = await becomeMember(server.adminDsn).catch(() => null)
    if (member) {
      const leave = async () => {
        if (await isAlone(member)) await dropLeftovers(member).then(() => server.stop())
        await member.end().catch(() => undefined)
      }
      return { adminDsn: server.adminDsn, leave }
    }
    await delay(100) // the last member is just stopping it
  }
}

async function becomeMember(adminDsn: string): Promise<Client | null> {
  const client = new Client({ connectionString: adminDsn, application_name: 'test member' })
  client.on('error', () => undefined)
  await client.connect()
  const { rows } = await client.query<{ joined: boolean }>('select pg_try_advisory_lock_shared($1) as joined', [
    MEMBERS,
  ])
  if (rows[0]?.joined) return client
  await client.end()
  return null
}

async function isAlone(member: Client): Promise<boolean> {
  const { rows } = await member.query<{ alone: boolean }>('select pg_try_advisory_lock($1) as alone', [MEMBERS])
  return rows[0]?.alone === true
}

/** Databases of runs that were killed, and all templates but the newest. */
async function dropLeftovers(member: Client): Promise<void> {
  const { rows } = await member.query<{ datname: string }>(
    `select datname from pg_database where datname like 'test\\_%'
      or (datname like 'template\\_%' and oid < (select max(oid) from pg_database where datname like 'template\\_%'))`,
  )
  for (const { datname } of rows) await member.query(`drop database if exists ${datname} with (force)`)
}
