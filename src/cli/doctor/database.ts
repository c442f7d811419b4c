// The database: can it be reached, is it what the hub needs, is the schema this program's, does it keep up, and do the clocks agree.
import type { Config } from '../../config.ts'
import { openDiagnosis, serverState } from '../../store/diagnosis.ts'
import type { ServerState } from '../../store/diagnosis.ts'
import { partitionStates, xminHolders } from '../../store/growth.ts'
import { schemaStatus } from '../../store/migrate.ts'
import type { Database } from '../../store/pool.ts'
import { isInboxAhead } from '../../store/pull.ts'
import { accessFindings } from './access.ts'
import { fail, ok, warn, type Check, type Finding } from './finding.ts'

const ANSWER_MS = 8_000
const OLDEST_VERSION = 15
/** Clocks may differ by seconds without harm; signatures are refused by receivers from minutes on. */
const SKEW_MS = { warn: 2_000, fail: 60_000 }
const OLD_SECONDS = 600
const STRAY_ROWS = 1_000

export function databaseCheck(config: Config): Check {
  const { dsn } = config.postgres
  return {
    name: 'database',
    advice: 'see STREAMING_HUB_POSTGRES_DSN: host, port, user, password, sslmode, and pg_hba.conf on the server',
    run: async () => {
      if (dsn === null) return [ok('database', 'an embedded PostgreSQL, which starts with the hub')]
      await using session = await openDiagnosis(dsn, ANSWER_MS)
      const asked = Date.now()
      const state = await serverState(session.db)
      const skewMs = state.now - (asked + Date.now()) / 2
      return [
        ...serverFindings(state, config),
        connectionFinding(state, config),
        clockFinding(skewMs),
        ...(await schemaFindings(session.db, config)),
        await vacuumFinding(session.db),
      ]
    },
  }
}

function serverFindings(state: ServerState, { env }: Config): Finding[] {
  const major = Math.floor(state.version / 10_000)
  const found: Finding[] = []
  if (major < OLDEST_VERSION)
    found.push(fail('database', `PostgreSQL ${major}`, `use PostgreSQL ${OLDEST_VERSION} or later`))
  if (state.isStandby)
    found.push(
      fail(
        'database',
        'a standby, which takes no writes',
        'name the primary in POSTGRES_DSN (target_session_attrs=read-write)',
      ),
    )
  if (state.encoding !== 'UTF8')
    found.push(fail('database', `its encoding is ${state.encoding}`, "make the database with encoding 'UTF8'"))
  const isNotEncrypted = !state.encrypted && env !== 'local'
  if (isNotEncrypted)
    found.push(warn('database', 'the connection is not encrypted', 'put sslmode=verify-full into POSTGRES_DSN'))
  return [
    ...(found.length > 0 ? found : [ok('database', `PostgreSQL ${major}${state.encrypted ? ' over TLS' : ''}`)]),
    ...settingFindings(state),
  ]
}

function settingFindings(state: ServerState): Finding[] {
  const found: Finding[] = []
  const expect = (setting: string, value: string, why: string, verdict: typeof warn = warn): void => {
    if (value === 'on' || value === 'remote_apply' || value === 'remote_write') return
    found.push(verdict('database settings', `${setting} is ${value}: ${why}`, `set ${setting} to on`))
  }
  expect('fsync', state.fsync, 'a crash of the machine can destroy the database', fail)
  expect('full_page_writes', state.fullPageWrites, 'a crash of the machine can destroy the database', fail)
  expect('synchronous_commit', state.synchronousCommit, 'a crash can lose events whose offsets are committed')
  expect('autovacuum', state.autovacuum, 'the hot tables will swell, and claims get slow')
  if (state.isolation !== 'read committed')
    found.push(
      fail(
        'database settings',
        `default_transaction_isolation is ${state.isolation}`,
        'set it back to read committed, for the role or the database',
      ),
    )
  return found.length > 0 ? found : [ok('database settings', 'durable, read committed, autovacuum on')]
}

function connectionFinding(state: ServerState, { postgres, role }: Config): Finding {
  const usable = state.maxConnections - state.reservedConnections
  const replicas = Math.max(1, state.replicas)
  const wanted = replicas * postgres.maxConnections
  const detail = `${replicas} ${role} × ${postgres.maxConnections} of ${usable} (${state.openConnections} are open)`
  const advice =
    'raise max_connections, or lower POSTGRES_MAX_OPEN_CONNS: replicas × connections must fit, with room for one more'
  if (wanted > usable) return fail('connections', `too few for the replicas that are there: ${detail}`, advice)
  if (wanted + postgres.maxConnections > usable || state.openConnections > 0.9 * usable)
    return warn('connections', `no room for another replica: ${detail}`, advice)
  return ok('connections', detail)
}

function clockFinding(skewMs: number): Finding {
  const seconds = `${(Math.abs(skewMs) / 1000).toFixed(1)} s`
  const detail = `this machine and the database differ by ${seconds}`
  const advice = 'synchronise both clocks (NTP): timestamps of signatures, retries and leases depend on them'
  if (Math.abs(skewMs) > SKEW_MS.fail) return fail('clock', detail, advice)
  return Math.abs(skewMs) > SKEW_MS.warn ? warn('clock', detail, advice) : ok('clock', detail)
}

async function schemaFindings(db: Database, config: Config): Promise<Finding[]> {
  const { missing, unknown } = await schemaStatus(db)
  if (unknown.length > 0)
    return [fail('schema', `newer than this program: ${unknown.join(', ')}`, 'use a newer version of the hub')]
  if (missing.length > 0) return [fail('schema', `lacks ${missing.join(', ')}`, 'run "streaming-hub migrate"')]
  return [
    ok('schema', 'that of this version'),
    await partitionFinding(db),
    await inboxFinding(db),
    ...(await accessFindings(db, config)),
  ]
}

async function inboxFinding(db: Database): Promise<Finding> {
  if (!(await isInboxAhead(db))) return ok('inbox', 'in step with the server')
  return fail(
    'inbox',
    'it was restored from another server, whose transaction ids are ahead of this one: the pull would pass over new events',
    'start a replica, which aligns it, or run "select align_inbox()"; see docs/pull.md',
  )
}

async function partitionFinding(db: Database): Promise<Finding> {
  const states = await partitionStates(db, new Date(), STRAY_ROWS)
  const behind = states.filter(({ isAhead }) => !isAhead).map(({ table }) => table)
  const stray = states.filter(({ defaultRows }) => defaultRows >= STRAY_ROWS).map(({ table }) => table)
  if (behind.length > 0)
    return warn(
      'partitions',
      `next week has none in ${behind.join(', ')}`,
      'start a replica: it makes them at once; if one runs, see GET /admin/singletons',
    )
  if (stray.length > 0)
    return warn(
      'partitions',
      `${STRAY_ROWS} rows or more lie in the default one of ${stray.join(', ')}`,
      'see HubDefaultPartitionUsed in docs/operations.md',
    )
  return ok('partitions', `made ahead in ${states.length} tables`)
}

async function vacuumFinding(db: Database): Promise<Finding> {
  const old = (await xminHolders(db)).find(
    ({ seconds, transactions }) => (seconds ?? 0) > OLD_SECONDS || transactions > 1_000_000,
  )
  if (!old) return ok('vacuum', 'nothing holds it back')
  const age = old.seconds === null ? `${old.transactions} transactions` : `${Math.round(old.seconds)} s`
  return warn(
    'vacuum',
    `${old.culprit} has held it back for ${age}`,
    'end that: tables swell, and the pull shows nothing newer',
  )
}
