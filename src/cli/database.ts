// The database of a command: the configured one; in local without one, the embedded one, which a hub may be running on.
import { silentLog } from '../base/log.ts'
import type { Config } from '../config.ts'
import { migrate, schemaStatus } from '../store/migrate.ts'
import { createPool, type Pool } from '../store/pool.ts'

/** Runs `work` on a database that has this program's schema; rejects where it has not. */
export async function withPool<T>(config: Config, work: (pool: Pool) => Promise<T>): Promise<T> {
  await using opened = new AsyncDisposableStack()
  const dsn = config.postgres.dsn ?? (await embeddedDsn(config, opened))
  const pool = createPool({ dsn, maxConnections: 1, applicationName: 'streaming-hub keys', onError: () => undefined })
  opened.defer(async () => await pool.end())
  if (config.env === 'local') await migrate(dsn)
  const { missing } = await schemaStatus(pool)
  if (missing.length > 0)
    throw new Error(`The database's schema lacks ${missing.join(', ')}: run "streaming-hub migrate" first.`)
  return await work(pool)
}

async function embeddedDsn({ dataDir }: Config, stack: AsyncDisposableStack): Promise<string> {
  const { visitLocalPostgres } = await import('../../dev/postgres.ts')
  const server = await visitLocalPostgres({ dataDir, log: silentLog })
  stack.defer(async () => await server.stop())
  return server.dsn
}
