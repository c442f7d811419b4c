// A real Apache Kafka (KRaft, one node, loopback) as a child process, for the tests and for `npm run kafka`. Its data lives in a
// temporary folder and goes with it. No JVM outlives us: it runs beside a shell that reads from us, and that kills its whole
// process group when the reading ends, however we ended.
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { access, cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Admin } from '@platformatic/kafka'
import { installKafka, type KafkaInstallation } from './kafka/install.ts'
import { loggingConfiguration, serverProperties, type KafkaListener, type KafkaPorts } from './kafka/settings.ts'

const run = promisify(execFile)

/** How long a start may take before it is given up, in ms: a JVM on a busy machine needs 3–10 s. */
const START_LIMIT_MS = 60_000
/** Half a gibibyte of heap holds a one-node broker; the first compiler tier alone starts it a third faster. */
const JVM_FLAGS = ['-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto']

export interface KafkaOptions {
  /** Broker settings laid over those of `serverProperties`. */
  properties?: Record<string, string>
  /** Opens more listeners for clients, each at a port of its own; their certificates and mechanisms are the matter of `properties`. */
  listeners?: Record<string, KafkaListener>
  /** Laid over the JVM's own. */
  javaFlags?: readonly string[]
}

export interface RunningKafka {
  /** `host:port`, as `STREAMING_HUB_KAFKA_BROKERS` takes it. */
  brokers: string[]
  /** The `host:port` of each of the other listeners, by name. */
  listeners: Record<string, string>
  /** Kills the broker with SIGKILL, as a crash would; its data stays for `resume`. */
  kill(): Promise<void>
  /** Starts it again on the same port and data. Resolves when it answers. */
  resume(): Promise<void>
  /** Ends it for good and removes its data. May be called twice. */
  stop(): Promise<void>
}

/** Resolves when the broker answers; rejects with one sentence when it cannot be had (no Java, no Maven) or does not start. */
export async function startKafka(options: KafkaOptions = {}): Promise<RunningKafka> {
  const installation = await installKafka()
  const folder = await mkdtemp(join(tmpdir(), 'kafka-'))
  const wanted = Object.entries(options.listeners ?? {})
  const [client = 0, controller = 0, ...others] = await freePorts(2 + wanted.length)
  const listeners = wanted.map(([name, listener], index) => ({ name, ...listener, port: others[index] ?? 0 }))
  const properties = options.properties ?? {}
  await prepare({ installation, folder, ports: { client, controller, listeners }, more: properties })
  const brokers = [`127.0.0.1:${client}`]
  let broker: ChildProcess | null = null

  const kill = async (): Promise<void> => {
    if (broker !== null) await killGroup(broker)
    broker = null
  }
  const resume = async (): Promise<void> => {
    broker ??= launch(installation, folder, options.javaFlags ?? [])
    await answers(brokers, broker, folder)
  }
  const stop = async (): Promise<void> => {
    await kill()
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  await resume().catch(async (error: unknown) => {
    await stop()
    throw error
  })
  const addresses = Object.fromEntries(listeners.map(({ name, port }) => [name, `127.0.0.1:${port}`]))
  return { brokers, listeners: addresses, kill, resume, stop }
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer())
  await Promise.all(servers.map((server) => once(server.listen(0, '127.0.0.1'), 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}

interface Preparation {
  installation: KafkaInstallation
  folder: string
  ports: KafkaPorts
  more: Record<string, string>
}

async function prepare({ installation, folder, ports, more }: Preparation): Promise<void> {
  const data = join(folder, 'data')
  await writeFile(join(folder, 'log4j2.xml'), loggingConfiguration(join(folder, 'server.log')))
  await writeFile(join(folder, 'server.properties'), serverProperties(ports, { 'log.dirs': data, ...more }))
  await cp(await formattedStorage(installation, folder), data, { recursive: true })
}

/** Formatting costs a JVM of its own (a second and a half), and its result is the same each time: done once and copied from then on. */
async function formattedStorage(installation: KafkaInstallation, folder: string): Promise<string> {
  const template = join(installation.folder, 'formatted')
  if (
    await access(template).then(
      () => true,
      () => false,
    )
  )
    return template
  const fresh = join(installation.folder, `formatting-${process.pid}`)
  const settings = join(folder, 'format.properties')
  await writeFile(settings, serverProperties({ client: 9092, controller: 9093, listeners: [] }, { 'log.dirs': fresh }))
  const format = ['format', '--cluster-id', 'c3RyZWFtaW5nLWh1Yi10ZQ', '--config', settings]
  await run('java', [...javaFlags(folder), '-cp', installation.classPath, 'kafka.tools.StorageTool', ...format])
  await rename(fresh, template).catch(() => rm(fresh, { recursive: true, force: true }))
  return template
}

function javaFlags(folder: string): string[] {
  return [...JVM_FLAGS, `-Dlog4j2.configurationFile=${join(folder, 'log4j2.xml')}`]
}

/**
 * The shell's own group holds the JVM and the reader: whichever ends first, `kill -9 0` ends the rest. The reading ends only when we
 * are gone, so nobody else is left to remove the folder ($0).
 */
const BESIDE_A_READER = '( "$@" </dev/null; kill -9 0 ) & cat >/dev/null; rm -rf "$0"; kill -9 0'

function launch(installation: KafkaInstallation, folder: string, more: readonly string[]): ChildProcess {
  const java = [
    'java',
    ...javaFlags(folder),
    ...more,
    '-cp',
    installation.classPath,
    'kafka.Kafka',
    join(folder, 'server.properties'),
  ]
  const child = spawn('sh', ['-c', BESIDE_A_READER, folder, ...java], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => undefined)
  return child
}

async function killGroup(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  process.kill(-child.pid, 'SIGKILL')
  await gone
}

async function answers(brokers: string[], broker: ChildProcess, folder: string): Promise<void> {
  const admin = new Admin({ clientId: 'readiness', bootstrapBrokers: brokers, retries: 0, connectTimeout: 500 })
  const limit = Date.now() + START_LIMIT_MS
  try {
    while (
      !(await admin.listTopics().then(
        () => true,
        () => false,
      ))
    ) {
      const dead = broker.exitCode !== null || broker.signalCode !== null
      if (dead || Date.now() > limit)
        throw new Error(`Kafka did not start:\n${await lastLines(join(folder, 'server.log'))}`)
      await delay(100)
    }
  } finally {
    await admin.close()
  }
}

async function lastLines(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch(() => '(it left no log)')
  return text.trim().split('\n').slice(-20).join('\n')
}
