// A database of its own for each test that wants one: a copy of a template with the whole schema, made in a few milliseconds,
// on a real PostgreSQL (`npm test` starts one; a test file that is run alone joins the shared one by itself).
import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { after } from 'node:test'
import { Client } from 'pg'
import { migrate } from '../../src/store/migrate.ts'
import { createPool, type Pool } from '../../src/store/pool.ts'
import { joinTestServer, type Membership } from './server.ts'

const MIGRATIONS = new URL('../../src/store/migrations/', import.meta.url)
const TEMPLATE_LOCK = 7_301_020

export interface TestDatabase extends AsyncDisposable {
  dsn: string
  /** As the hub makes it; opens no connection before its first use, and ends with `drop`. */
  pool: Pool
  /** Ends every connection to it, whoever holds it. May be called twice. */
  drop(): Promise<void>
}

let membership: Promise<Membership> | null = null
const undropped = new Set<TestDatabase>()

after(async () => {
  for (const database of undropped) await database.drop()
  await (await membership)?.leave()
})

/** A fresh, migrated, empty database; what the test does not drop is dropped at the file's end. */
export async function testDatabase(): Promise<TestDatabase> {
  const adminDsn = await server()
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await withAdmin(adminDsn, async (admin) => {
    await admin.query(`create database ${name} template ${await template(admin, adminDsn)} strategy file_copy`)
  })
  const dsn = dsnOf(adminDsn, name)
  const pool = createPool({ dsn, maxConnections: 10, applicationName: 'test', onError: () => undefined })
  const drop = async () => {
    if (!undropped.delete(database)) return
    await pool.end()
    await withAdmin(adminDsn, (admin) => admin.query(`drop database if exists ${name} with (force)`))
  }
  const database: TestDatabase = { dsn, pool, drop, [Symbol.asyncDispose]: drop }
  undropped.add(database)
  return database
}

async function server(): Promise<string> {
  const given = process.env['TEST_POSTGRES_DSN']
  if (given) return given
  membership ??= joinTestServer()
  return (await membership).adminDsn
}

/** Makes the template of this schema unless it is there: in a draft, so that a killed run leaves no half of one. */
async function template(admin: Client, adminDsn: string): Promise<string> {
  const name = `template_${await schemaHash()}`
  const draft = `test_${randomUUID().replaceAll('-', '')}`
  await admin.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK])
  const found = await admin.query('select from pg_database where datname = $1', [name])
  if (found.rowCount === 0) {
    await admin.query(`create database ${draft}`)
    await migrate(dsnOf(adminDsn, draft))
    await admin.query(`alter database ${draft} allow_connections false`)
    await admin.query(`alter database ${draft} rename to ${name}`)
  }
  await admin.query('select pg_advisory_unlock($1)', [TEMPLATE_LOCK])
  return name
}

async function schemaHash(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of (await readdir(MIGRATIONS)).sort())
    hash.update(file).update(await readFile(new URL(file, MIGRATIONS)))
  return hash.digest('hex').slice(0, 16)
}

function dsnOf(adminDsn: string, database: string): string {
  return Object.assign(new URL(adminDsn), { pathname: `/${database}` }).href
}

async function withAdmin(adminDsn: string, work: (admin: Client) => Promise<unknown>): Promise<void> {
  const admin = new Client({ connectionString: adminDsn })
  admin.on('error', () => undefined)
  await admin.connect()
  try {
    await work(admin)
  } finally {
    await admin.end()
  }
}
