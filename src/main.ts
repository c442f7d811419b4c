// Runs the hub until it is told to stop: local services where the mode brings them, the app, and a signal.
import { createApp } from './app.ts'
import { createLog } from './base/log.ts'
import type { Log } from './base/log.ts'
import { VERSION } from './base/version.ts'
import { stopSignals } from './cli/interrupted.ts'
import { welcome } from './cli/welcome.ts'
import { kekSources, type Config } from './config.ts'
import { makeLocalKek, startLocalServices } from './local.ts'
import type { LocalServices } from './local.ts'
import type { KekSource } from './secrets/keyring.ts'

export interface Hub {
  /** The API's, without a slash at its end; empty when it was told to stop before it had started. */
  url: string
  brokers: readonly string[]
  local: LocalServices | null
  /** Stops everything within the configured time; answers the parts that hung and were left behind. May be called twice. Never rejects. */
  stop(how?: Stopping): Promise<readonly string[]>
}

interface Stopping {
  /** A balancer may send requests here: go on serving until it has seen that this replica is not ready. */
  drain?: boolean
  /** Aborts when the deadline is now. */
  hurry?: AbortSignal
}

/**
 * Runs the hub until SIGINT or SIGTERM, and then ends the process: with 0 when everything was finished or given back, with 1 when a
 * part hung and was left behind. The second signal hurries, the third ends the process at once. Rejects when it cannot start.
 */
export async function serve(config: Config): Promise<void> {
  const log = createLog(config.logLevel)
  if (config.auth.open) log.warn({ host: config.http.host }, OPEN)
  const { told, hurry } = stopSignals()
  const stopping = told.then((signal): Stopping => {
    log.info({ signal }, 'stopping')
    endAtTheLatest(config, log)
    // A person at a terminal is no balancer.
    return { drain: signal === 'SIGTERM', hurry }
  })
  const hub = await startHub(config, log, stopping)
  if (hub.local && hub.url !== '') process.stdout.write(`\n${greeting(config, hub)}\n`)
  const left = await hub.stop(await stopping)
  log.info('stopped')
  process.exit(left.length > 0 ? 1 : 0)
}

const OPEN = 'no authentication is configured: whoever reaches the API may do everything, as any tenant'

/** Of the time that a stop may take, what is left to give things back after the deadline, and to say so. */
const LET_GO_MS = 1_500
const LAST_WORD_MS = 50

/** Whatever hangs, and in whatever state: the time that was promised holds. */
function endAtTheLatest({ shutdown }: Config, log: Log): void {
  const end = (): void => {
    log.error('the stop was cut off: its time is up')
    process.exit(1)
  }
  setTimeout(end, shutdown.timeoutMs - LAST_WORD_MS).unref()
}

/** The hub with what local mode brings; started. A stop that `told` asks for while it starts ends the start early, without an error. */
export async function startHub(config: Config, log: Log, told?: Promise<Stopping>): Promise<Hub> {
  const local = config.env === 'local' ? await startLocalServices(config, log) : null
  try {
    return await startOn(config, log, { local, told })
  } catch (error) {
    await local?.stop()
    throw error
  }
}

async function startOn(
  config: Config,
  log: Log,
  { local, told }: { local: LocalServices | null; told: Promise<Stopping> | undefined },
): Promise<Hub> {
  const dsn = local?.dsn ?? config.postgres.dsn ?? ''
  const brokers = local?.brokers ?? config.kafka.brokers ?? []
  const impatient = new AbortController()
  const app = await createApp(config, { log, dsn, brokers, keks: await keksOf(config), impatient: impatient.signal })
  const stopAll = async ({ drain = false, hurry }: Stopping): Promise<readonly string[]> => {
    if (!drain) impatient.abort()
    using deadline = deadlineAfter(config.shutdown.timeoutMs - LET_GO_MS, hurry)
    const left = await app.stop(deadline.signal)
    await local?.stop()
    return left
  }
  let stopped: Promise<readonly string[]> | null = null
  const stop = (how: Stopping = {}): Promise<readonly string[]> => (stopped ??= stopAll(how))
  void told?.then(stop)
  try {
    await app.start()
  } catch (error) {
    await app.stop(AbortSignal.abort())
    throw error
  }
  return { url: app.running() ? urlOf(app.address()) : '', brokers, local, stop }
}

/** Aborts after `ms`, or as soon as `hurry` does. Leaves no timer behind. */
function deadlineAfter(ms: number, hurry: AbortSignal | undefined) {
  const deadline = new AbortController()
  const reach = (): void => deadline.abort()
  const timer = setTimeout(reach, ms)
  if (hurry?.aborted) reach()
  hurry?.addEventListener('abort', reach, { once: true })
  return { signal: deadline.signal, [Symbol.dispose]: () => clearTimeout(timer) }
}

function urlOf({ host, port }: { host: string; port: number }): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

async function keksOf(config: Config): Promise<KekSource[]> {
  if (config.kek.kind === 'generated') await makeLocalKek(config.dataDir)
  return kekSources(config)
}

function greeting(config: Config, { url, brokers, local }: Hub): string {
  return welcome({
    version: VERSION,
    url,
    docs: config.http.docsEnabled,
    brokers,
    developmentBroker: local?.developmentBroker ?? false,
    databaseDirectory: local?.databaseDirectory ?? null,
    open: config.auth.open,
    privateSinks: config.allowPrivateSinks,
  })
}
