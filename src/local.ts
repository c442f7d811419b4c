// Local mode: what the machine of somebody who tries the hub out may lack. Brings up an embedded PostgreSQL and the development
// broker where none is configured, and keeps a key of its own. Loads dev/, which no other mode ever does.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from './base/log.ts'
import type { Config } from './config.ts'

export interface LocalServices {
  dsn: string
  /** Where the embedded PostgreSQL keeps its files; null: a database that was configured. */
  databaseDirectory: string | null
  brokers: readonly string[]
  developmentBroker: boolean
  /** Stops what was brought up. Never rejects. */
  stop(): Promise<void>
}

/** Brings up what is not configured. */
export async function startLocalServices(config: Config, log: Log): Promise<LocalServices> {
  assert(config.env === 'local', 'dev/ is for local mode alone')
  const postgres = await startPostgres(config, log)
  try {
    const broker = await startBroker(config, log)
    return {
      dsn: postgres.dsn,
      databaseDirectory: postgres.directory,
      brokers: broker.brokers,
      developmentBroker: broker.development,
      stop: async () => {
        await broker.stop()
        await postgres.stop()
      },
    }
  } catch (error) {
    await postgres.stop()
    throw error
  }
}

/** Makes the key-encryption key of a local hub, unless it is there: readable by its owner alone. */
export async function makeLocalKek(dataDir: string): Promise<void> {
  const file = join(dataDir, 'kek')
  await mkdir(dataDir, { recursive: true })
  try {
    await writeFile(file, randomBytes(32).toString('base64'), { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

async function startPostgres(config: Config, log: Log) {
  const { dsn } = config.postgres
  if (dsn !== null) return { dsn, directory: null, stop: async () => undefined }
  const { startLocalPostgres } = await import('../dev/postgres.ts')
  return await startLocalPostgres({ dataDir: config.dataDir, log })
}

async function startBroker(config: Config, log: Log) {
  const { brokers, devBrokerPort } = config.kafka
  if (brokers !== null) return { brokers, development: false, stop: async () => undefined }
  const { createDevBroker } = await import('../dev/broker.ts')
  const broker = createDevBroker({ port: devBrokerPort, log })
  await broker.start()
  return { brokers: [broker.address], development: true, stop: () => broker.stop(AbortSignal.timeout(1_000)) }
}
