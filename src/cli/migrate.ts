// `streaming-hub migrate`: the schema's versions are applied by hand or by a deployment's job, before the hub starts on them.
import type { Config } from '../config.ts'
import { migrate } from '../store/migrate.ts'

/** Answers what it did, for a person. */
export async function migrateSchema(config: Config): Promise<string> {
  const { dsn } = config.postgres
  if (dsn === null)
    throw new Error('STREAMING_HUB_POSTGRES_DSN is not set. The embedded PostgreSQL is migrated when the hub starts.')
  const applied = await migrate(dsn)
  if (applied.length === 0) return 'The schema is up to date.'
  return `The schema is up to date; applied: ${applied.join(', ')}.`
}
