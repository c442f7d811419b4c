// The schema's versions: numbered forward .sql files, each run once, in one transaction.
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { Client } from 'pg'
import type { Database } from './pool.ts'

const DIRECTORY = fileURLToPath(new URL('./migrations/', import.meta.url))
const TABLE = 'schema_migration'

/**
 * Brings the schema up to date; answers the names of the migrations that it ran. Several at once wait for each other. Where the
 * database goes away meanwhile, it rejects with an error that `isOutage` knows.
 */
export async function migrate(dsn: string): Promise<string[]> {
  const client = new Client({
    connectionString: dsn,
    application_name: 'streaming-hub migrate',
    connectionTimeoutMillis: 5_000,
  })
  client.on('error', () => undefined) // a connection that is cut fails the statement that comes next
  try {
    await client.connect()
    const done = await run(client)
    return done.map(({ name }) => name)
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function run(client: Client): Promise<{ name: string }[]> {
  try {
    return await runner({
      dbClient: client,
      dir: DIRECTORY,
      migrationsTable: TABLE,
      direction: 'up',
      advisoryLockMode: 'wait',
      logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    })
  } catch (error) {
    // The runner puts the text of what went wrong into an error of its own: a connection that is gone has to say so itself.
    await client.query('rollback')
    throw error
  }
}

/** `missing`: migrations that the database lacks; `unknown`: ones that it has and this program does not know (it is older). */
export interface SchemaStatus {
  missing: string[]
  unknown: string[]
}

/** Compares the database's schema with this program's. */
export async function schemaStatus(db: Database): Promise<SchemaStatus> {
  const known = (await readdir(DIRECTORY)).map((file) => file.replace(/\.sql$/, '')).sort()
  const found = await db.query<{ exists: boolean }>(`select to_regclass('${TABLE}') is not null as exists`)
  const applied = found.rows[0]?.exists ? await db.query<{ name: string }>(`select name from ${TABLE}`) : { rows: [] }
  const names = new Set(applied.rows.map(({ name }) => name))
  return {
    missing: known.filter((name) => !names.has(name)),
    unknown: [...names].filter((name) => !known.includes(name)),
  }
}
