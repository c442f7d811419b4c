// Runs the hub until it is told to stop: local services where the mode brings them, the app, and a signal.
import { createApp } from './app.ts'
import { createLog } from './base/log.ts'
import type { Log } from './base/log.ts'
import { VERSION } from './base/version.ts'
import { interrupted } from './cli/interrupted.ts'
import { welcome } from './cli/welcome.ts'
import type { Config } from './config.ts'
import { localKek, startLocalServices } from './local.ts'
import type { LocalServices } from './local.ts'
import type { KekSource } from './secrets/keyring.ts'

export interface Hub {
  /** The API's, without a slash at its end. */
  url: string
  brokers: readonly string[]
  local: LocalServices | null
  /** Stops everything within the configured time. May be called twice. Never rejects. */
  stop(): Promise<void>
}

/** Runs the hub and resolves when it has stopped, on SIGINT or SIGTERM. Rejects when it cannot start. */
export async function serve(config: Config): Promise<void> {
  const log = createLog(config.logLevel)
  for (const variable of config.unused) log.warn({ variable }, 'this variable is set and has no effect yet')
  const told = interrupted()
  const hub = await startHub(config, log)
  if (hub.local) process.stdout.write(`\n${greeting(config, hub)}\n`)
  await told
  log.info('stopping')
  await hub.stop()
  log.info('stopped')
}

/** Of the time that a stop may take, what is left to give things back after the deadline. */
const LET_GO_MS = 1_500

/** The hub with what local mode brings; started. */
export async function startHub(config: Config, log: Log): Promise<Hub> {
  const local = config.env === 'local' ? await startLocalServices(config, log) : null
  try {
    return await startOn(config, log, local)
  } catch (error) {
    await local?.stop()
    throw error
  }
}

async function startOn(config: Config, log: Log, local: LocalServices | null): Promise<Hub> {
  const dsn = local?.dsn ?? config.postgres.dsn ?? ''
  const brokers = local?.brokers ?? config.kafka.brokers ?? []
  const app = await createApp(config, { log, dsn, brokers, kek: await kekOf(config) })
  const stop = async (): Promise<void> => {
    await app.stop(AbortSignal.timeout(config.shutdown.timeoutMs - LET_GO_MS))
    await local?.stop()
  }
  try {
    await app.start()
  } catch (error) {
    await app.stop(AbortSignal.abort())
    throw error
  }
  const { host, port } = app.address()
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`, brokers, local, stop }
}

async function kekOf({ kek, dataDir }: Config): Promise<KekSource> {
  return kek.kind === 'generated' ? { kind: 'env', value: await localKek(dataDir) } : kek
}

function greeting(config: Config, { url, brokers, local }: Hub): string {
  return welcome({
    version: VERSION,
    url,
    docs: config.http.docsEnabled,
    brokers,
    developmentBroker: local?.developmentBroker ?? false,
    databaseDirectory: local?.databaseDirectory ?? null,
    open: true,
    privateSinks: config.allowPrivateSinks,
  })
}
