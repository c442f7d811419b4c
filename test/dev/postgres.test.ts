import assert from 'node:assert/strict'
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { ensureServer, startLocalPostgres, type LocalPostgres } from '../../dev/postgres.ts'
import { silentLog } from '../../src/base/log.ts'

const root = await mkdtemp(join(tmpdir(), 'hub-postgres-test-'))
// What is started as another user must be reachable by it.
await chmod(root, 0o755)
const started: LocalPostgres[] = []
afterEach(async () => {
  for (const postgres of started.splice(0)) await postgres.stop()
})
after(() => rm(root, { recursive: true, force: true }))

/** Most tests share the data directory `main`, one after the other: to make a new one takes a second. */
async function start(name = 'main', options: { durable?: boolean } = {}): Promise<LocalPostgres> {
  const postgres = await startLocalPostgres({ dataDir: join(root, name), log: silentLog, durable: false, ...options })
  started.push(postgres)
  return postgres
}

async function query(dsn: string, sql: string): Promise<unknown> {
  const client = new Client({ connectionString: dsn })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query<{ value: unknown }>(sql)
    return rows[0]?.value
  } finally {
    await client.end()
  }
}

const show = (dsn: string, setting: string) => query(dsn, `select current_setting('${setting}') as value`)
const portOf = (dsn: string) => Number(new URL(dsn).port)
const pidFile = (postgres: { directory: string }) => join(postgres.directory, 'cluster', 'postmaster.pid')
const pidOf = async (postgres: { directory: string }) =>
  Number((await readFile(pidFile(postgres), 'utf8')).split('\n')[0])

/** A hub in a process of its own. */
async function holder(dataDir: string) {
  const script = fileURLToPath(new URL('hold-postgres.ts', import.meta.url))
  const child = spawn(process.execPath, [script, dataDir], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { child, ...(JSON.parse(line.toString()) as { dsn: string; directory: string }) }
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
}

/** A killed server is gone when nobody answers for it any more. */
async function killServer(postgres: LocalPostgres): Promise<void> {
  process.kill(await pidOf(postgres), 'SIGKILL')
  while ((await query(postgres.dsn, 'select 1 as value').catch(() => null)) !== null) await new Promise(setImmediate)
}

describe('the local PostgreSQL', () => {
  it('is a UTF-8 database on loopback alone, with no socket file, for who knows the password', async () => {
    const { dsn, directory } = await start()
    assert.equal(await show(dsn, 'server_encoding'), 'UTF8')
    assert.equal(await show(dsn, 'listen_addresses'), '127.0.0.1')
    assert.equal(await show(dsn, 'unix_socket_directories'), '')
    assert.equal(await show(dsn, 'TimeZone'), 'UTC')
    const guess = Object.assign(new URL(dsn), { password: 'postgres' }).href
    await assert.rejects(query(guess, 'select 1'), /password authentication failed/)
    assert.equal((await stat(join(directory, 'connection.json'))).mode & 0o777, 0o600)
    assert.equal((await stat(directory)).mode & 0o777, 0o700)
  })

  it('keeps its data and its address over a stop and a start', async () => {
    const first = await start()
    await query(first.dsn, 'create table if not exists kept as select 42 as value')
    await first.stop()
    await first.stop()
    await assert.rejects(query(first.dsn, 'select 1'), /ECONNREFUSED/)
    const second = await start()
    assert.equal(second.dsn, first.dsn)
    assert.equal(await query(second.dsn, 'select value from kept'), 42)
  })

  it('is durable unless a test asks otherwise', async () => {
    const fast = await start()
    assert.equal(await show(fast.dsn, 'fsync'), 'off')
    await fast.stop()
    const durable = await startLocalPostgres({ dataDir: join(root, 'main'), log: silentLog })
    started.push(durable)
    for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes'])
      assert.equal(await show(durable.dsn, setting), 'on')
  })

  it('two data directories make two servers', async () => {
    const [one, other] = await Promise.all([start(), start('other')])
    assert.notEqual(portOf(one.dsn), portOf(other.dsn))
    await query(one.dsn, 'create table if not exists mine (value int)')
    await assert.rejects(query(other.dsn, 'select value from mine'), /does not exist/)
  })

  it('a second hub on one data directory is told so, and the first goes on', async () => {
    const { dsn } = await start()
    await assert.rejects(
      start(),
      /Another hub is running on the data directory .*main: stop it, or set STREAMING_HUB_DATA_DIR/,
    )
    assert.equal(await query(dsn, 'select 1 as value'), 1)
  })

  it('is one for all who make sure of it at the same time, and leaves no draft behind', async () => {
    const options = { dataDir: join(root, 'raced'), log: silentLog, durable: false }
    const servers = await Promise.all([ensureServer(options), ensureServer(options), ensureServer(options)])
    assert.equal(new Set(servers.map(({ dsn }) => dsn)).size, 1)
    assert.equal(await query(servers[0].dsn, 'select 1 as value'), 1)
    await servers[0].stop()
    assert.deepEqual(await readdir(options.dataDir), ['postgres'])
  })
})

describe('after a crash', () => {
  it('the server of a killed hub is adopted, and stopped by who adopted it', async () => {
    const killed = await holder(join(root, 'adopted'))
    const pid = await pidOf(killed)
    await kill(killed.child)
    assert.equal(await query(killed.dsn, 'select 1 as value'), 1)
    const postgres = await start('adopted')
    assert.equal(await pidOf(postgres), pid)
    assert.equal(postgres.dsn, killed.dsn)
    await postgres.stop()
    await assert.rejects(query(killed.dsn, 'select 1'), /ECONNREFUSED/)
    await assert.rejects(readFile(pidFile(postgres)), { code: 'ENOENT' })
  })

  it('a killed server is started again, and has what was committed', async () => {
    const first = await start('main', { durable: true })
    await query(first.dsn, 'create table if not exists kept as select 42 as value')
    await killServer(first)
    const second = await start()
    assert.equal(await query(second.dsn, 'select value from kept'), 42)
  })

  it('a pid file that names a process of somebody else is not believed', async () => {
    const first = await start()
    const text = await readFile(pidFile(first), 'utf8')
    await first.stop()
    await writeFile(pidFile(first), text.replace(/^\d+/, String(process.pid)), { mode: 0o600 })
    const { uid, gid } = await stat(join(first.directory, 'cluster'))
    await chown(pidFile(first), uid, gid)
    const second = await start()
    assert.equal(await query(second.dsn, 'select 1 as value'), 1)
  })

  it('a remembered port that somebody else has taken is given up for another', async () => {
    const first = await start()
    await first.stop()
    const squatter = createServer((socket) => socket.destroy()).listen(portOf(first.dsn), '127.0.0.1')
    await once(squatter, 'listening')
    const second = await start()
    squatter.close()
    assert.notEqual(portOf(second.dsn), portOf(first.dsn))
  })
})

const isRoot = process.getuid?.() === 0
const nobody = { uid: 65_534, gid: 65_534 }

describe('as root', { skip: !isRoot && 'needs root' }, () => {
  it('the server runs as another user', async () => {
    const { directory } = await start()
    assert.notEqual((await stat(join(directory, 'cluster'))).uid, 0)
  })

  it('a data directory that is closed to that user is opened for passing through, and for nothing else', async () => {
    const dataDir = join(root, 'closed-itself')
    await mkdir(dataDir, { mode: 0o700 })
    const { directory } = await start('closed-itself')
    assert.equal(directory, join(dataDir, 'postgres'))
    assert.equal((await stat(dataDir)).mode & 0o777, 0o711)
  })

  it('under a directory that is closed to that user, its files go elsewhere, and are found again', async () => {
    await mkdir(join(root, 'closed'), { mode: 0o700 })
    const first = await start('closed/hub')
    try {
      assert.ok(!first.directory.startsWith(root), first.directory)
      await query(first.dsn, 'create table if not exists kept as select 42 as value')
      await first.stop()
      const second = await start('closed/hub')
      assert.equal(await query(second.dsn, 'select value from kept'), 42)
      await second.stop()
    } finally {
      await rm(first.directory, { recursive: true, force: true })
    }
  })

  it('what belongs to an ordinary user is run as that user', async () => {
    const made = await start('ordinary')
    await made.stop()
    await promisify(execFile)('chown', ['-R', `${nobody.uid}:${nobody.gid}`, made.directory])
    const postgres = await start('ordinary')
    assert.equal((await stat(pidFile(postgres))).uid, nobody.uid)
    assert.equal(await query(postgres.dsn, 'select 1 as value'), 1)
  })
})

// The last one, for it breaks what the others share.
describe('a server that cannot start', () => {
  it('says why', async () => {
    const first = await start()
    await first.stop()
    await writeFile(join(first.directory, 'cluster', 'postgresql.conf'), 'no_such_setting = 1\n')
    await assert.rejects(start(), /does not start in .*main[\s\S]*no_such_setting/)
  })
})
