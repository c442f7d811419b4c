// Whose fault a failed write is, each kind made for real where it can be: a fault of the database stalls the partition and blames no
// record, and when it is over everything is stored once and in order; a record that the database refuses for what it holds is
// quarantined alone; and where something else has the same code as such a refusal, nobody is blamed either.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { createRecordsBatch } from '@platformatic/kafka'
import { silentLog } from '../../src/base/log.ts'
import { createRegistry } from '../../src/base/metrics.ts'
import { ingest } from '../../src/ingest/ingest.ts'
import { ingestMetrics } from '../../src/ingest/metrics.ts'
import { createPool, type Pool } from '../../src/store/pool.ts'
import type { Stream } from '../../src/stream/stream.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase } from '../support/database.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'
import { recordWith } from '../support/records.ts'
import { createInbox, observedBroker, readableLog, testStream, Watch } from '../support/stream.ts'

const TOPIC = 'lerian.streaming.lender'
const RECORDS = 10
/** Of the ten, one has an id that is none: it belongs into quarantine, and nothing else does. */
const MALFORMED = 4

interface Scene {
  /** Untouched by the fault. */
  admin: Pool
  database: string
  /** What the hub's connections go through. */
  way: Way
  watch: Watch
}

/** Makes the fault; answers with what ends it. Runs before the first write. */
type Inflict = (scene: Scene) => Promise<() => Promise<unknown>>

interface Fault {
  /** The codes that the write may fail with. */
  codes: string[]
  /** Of the hub's sessions. */
  settings?: string
  inflict: Inflict
}

const faults: Record<string, Fault> = {
  'the database is down': {
    codes: ['ECONNREFUSED', 'ECONNRESET'],
    inflict: async ({ way }) => {
      await way.close()
      return () => way.open()
    },
  },
  'connections are cut in the middle of a statement': {
    codes: ['no code', 'ECONNRESET'],
    inflict: async (scene) => whileLocked(scene, () => scene.way.cut()),
  },
  'the server ends our sessions in the middle of a statement': {
    codes: ['57P01', 'no code'],
    inflict: async (scene) =>
      whileLocked(scene, (waiting) => scene.admin.query('select pg_terminate_backend($1)', [waiting])),
  },
  'a statement is cancelled': {
    codes: ['57014'],
    inflict: async (scene) =>
      whileLocked(scene, (waiting) => scene.admin.query('select pg_cancel_backend($1)', [waiting])),
  },
  'a statement takes too long': { codes: ['57014'], settings: 'statement_timeout=150', inflict: locked },
  'a lock is not to be had': { codes: ['55P03'], settings: 'lock_timeout=150', inflict: locked },
  'a deadlock': { codes: ['40P01'], inflict: deadlocked },
  'a serialisation failure': {
    codes: ['40001'],
    settings: 'default_transaction_isolation=serializable',
    inflict: async (scene) => whileLaneLocked(scene),
  },
  'the database is read-only': {
    codes: ['25006'],
    inflict: async ({ admin, database, way }) => {
      await admin.query(`alter database ${database} set default_transaction_read_only = on`)
      way.cut()
      return async () => {
        await admin.query(`set default_transaction_read_only = off`)
        await admin.query(`alter database ${database} reset default_transaction_read_only`)
        way.cut()
      }
    },
  },
  'too many connections': {
    codes: ['53300'],
    inflict: async ({ admin, way }) => {
      await admin.query(`alter role ${ROLE} connection limit 0`)
      way.cut()
      return () => admin.query(`alter role ${ROLE} connection limit -1`)
    },
  },
  'the table is not there': {
    codes: ['42P01'],
    inflict: async ({ admin }) => {
      await admin.query('alter table event_inbox rename to moved')
      return () => admin.query('alter table moved rename to event_inbox')
    },
  },
  'a privilege is missing': {
    codes: ['42501'],
    inflict: async ({ admin }) => {
      await admin.query(`revoke insert on event_inbox from ${ROLE}`)
      return () => admin.query(`grant insert on event_inbox to ${ROLE}`)
    },
  },
  'the sequence is used up, which has the class of a data fault': {
    codes: ['2200H'],
    inflict: async ({ admin }) => {
      await admin.query("select setval('event_seq', 1000)")
      await admin.query('alter sequence event_seq maxvalue 1000')
      return () => admin.query('alter sequence event_seq no maxvalue')
    },
  },
  'no partition takes the row, which has the code of a check': {
    codes: ['23514'],
    inflict: async ({ admin }) => {
      await admin.query('alter table event_inbox detach partition event_inbox_default')
      return () => admin.query('alter table event_inbox attach partition event_inbox_default default')
    },
  },
  'a delivery is refused by a check, and not the event': {
    codes: ['23514'],
    inflict: async ({ admin }) => {
      await admin.query('alter table delivery add constraint odd check (false)')
      return () => admin.query('alter table delivery drop constraint odd')
    },
  },
  'a counter of a lane overflows': {
    codes: ['22003'],
    inflict: async ({ admin }) => {
      await admin.query('update lane set wake_gen = 9223372036854775807')
      return () => admin.query('update lane set wake_gen = 0')
    },
  },
}
// What cannot be made for real without harm to the machine, as the server would say it.
for (const [what, code] of [
  ['the disk is full', '53100'],
  ['the server is out of memory', '53200'],
  ['the disk fails', '58030'],
  ['the server crashes', '57P02'],
  ['the server starts up', '57P03'],
  ['a page is corrupt', 'XX001'],
  ['a trigger of somebody objects', 'P0001'],
] as const) {
  faults[`${what} (${code}, raised)`] = { codes: [code], inflict: raised(code) }
}

describe('a fault of the database stalls the partition, blames nobody, and loses nothing:', () => {
  for (const [what, fault] of Object.entries(faults)) {
    test(what, async () => {
      await using scene = await setScene(fault.settings)
      const undo = await fault.inflict(scene)
      const { stream, errors, committed } = scene
      await stream.start()
      await scene.watch.until(() => errors.length >= 2)
      assert.deepEqual(new Set(errors).difference(new Set(fault.codes)), new Set())
      assert.deepEqual(await stored(scene.admin, fault), { events: [], quarantined: [], deliveries: 0 })
      await undo()
      await scene.watch.until(() => committed() === BigInt(RECORDS))
      assert.deepEqual(await stored(scene.admin), {
        events: Array.from({ length: RECORDS }, (_, at) => at).filter((at) => at !== MALFORMED),
        quarantined: [{ reason: 'invalid_id', at: MALFORMED }],
        deliveries: 2 * (RECORDS - 1),
      })
    })
  }
})

const own: Record<string, (admin: Pool) => Promise<unknown>> = {
  'a value that a column does not take (class 22)': (admin) => raiseFor(admin, '22P02'),
  'a check (class 23)': (admin) =>
    admin.query("alter table event_inbox add check (event_key <> 'loan_application.refused')"),
  'a uniqueness that somebody has asked for (class 23)': async (admin) => {
    await admin.query('create unique index on event_inbox_default (event_key) where event_key like $$%refused$$')
    await admin.query(
      `insert into event_inbox (tenant_id, ce_id, received_at, source, resource_type, event_key, schema_major, attributes, data_bytes, topic)
       values ('x', uuid7(now()), now(), 'lender', 'loan_application', 'loan_application.refused', 1, '{}', 0, '')`,
    )
    await admin.query("update event_inbox set kafka_partition = 0, kafka_offset = -1 where tenant_id = 'x'")
  },
  'an index row that would be too large (class 54)': (admin) =>
    admin.query("create index on event_inbox ((attributes ->> 'note'))"),
}

describe('a record that the database refuses for what it holds is quarantined alone, its neighbours are stored in order:', () => {
  for (const [what, prepare] of Object.entries(own)) {
    test(what, async () => {
      await using database = await testDatabase()
      const { pool } = database
      await insertSubscription(pool)
      await prepare(pool)
      const before = (await stored(pool)).events.length
      const culprits = new Set([0, 7, 8, 19])
      const batch = Array.from({ length: 20 }, (_, at) => recordAt(at, culprits.has(at) ? REFUSED : {}))
      const results = await ingest(batch, deps(pool))
      assert.deepEqual(
        results.flatMap((result, at) => (result.kind === 'quarantined' ? [{ reason: result.reason, at }] : [])),
        [...culprits].map((at) => ({ reason: 'storage_rejected', at })),
      )
      const found = await stored(pool)
      assert.deepEqual(
        found.events.slice(before),
        batch.flatMap((_, at) => (culprits.has(at) ? [] : [at])),
      )
      assert.deepEqual(
        found.quarantined,
        [...culprits].map((at) => ({ reason: 'storage_rejected', at })),
      )
      assert.equal(found.deliveries, 16)
      // Read again after a crash: the same, and nothing twice.
      await ingest(batch, deps(pool))
      assert.deepEqual(await stored(pool), found)
    })
  }
})

/** Refused by each of the preparations above. */
const REFUSED = { type: 'studio.lerian.lender.loan_application.refused', eventtype: 'refused', note: noise(3_000) }

/** Text that no compression makes small. */
function noise(length: number): string {
  return randomBytes(length).toString('base64').slice(0, length)
}

function recordAt(at: number, given: Record<string, string> = {}) {
  return recordWith({ id: uuid7(), ...given }, { position: { partition: 0, offset: BigInt(at) } })
}

function deps(pool: Pool) {
  const metrics = ingestMetrics(createRegistry({ processMetrics: false }))
  return { pool, clock: manualClock(), log: silentLog, metrics, onWoken: () => undefined }
}

/** What has been kept, by the offsets in the order of arrival. A table that the fault has moved holds nothing. */
async function stored(admin: Pool, fault?: Fault) {
  const events = fault?.codes.includes('42P01') ? 'moved' : 'event_inbox'
  const offsets = await admin.query<{ at: number }>(`select kafka_offset as at from ${events} order by seq`)
  const quarantine = await admin.query<{ reason: string; at: number }>(
    'select reason, kafka_offset as at from quarantine order by kafka_offset',
  )
  const deliveries = await admin.query('select from delivery')
  return { events: offsets.rows.map(({ at }) => at), quarantined: quarantine.rows, deliveries: deliveries.rowCount }
}

const ROLE = 'hub_of_the_fault_tests'

/** Ten records in one batch on a topic, two subscriptions that match them, and a stream that reads them into the database. */
async function setScene(settings = 'lock_timeout=0') {
  const resources = new AsyncDisposableStack()
  const { pool: admin, dsn } = resources.use(await testDatabase())
  await insertSubscription(admin)
  await insertSubscription(admin)
  await makeRole(admin)
  const way = resources.use(await openWay(new URL(dsn)))
  const hub = Object.assign(new URL(dsn), {
    username: ROLE,
    password: ROLE,
    hostname: '127.0.0.1',
    port: String(way.port),
  })
  hub.search = new URLSearchParams({ options: `-c ${settings}` }).toString()
  const pool = createPool({ dsn: hub.href, maxConnections: 2, applicationName: 'hub', onError: () => undefined })
  resources.defer(() => pool.end())

  const watch = new Watch()
  const kafka = resources.use(await observedBroker(watch))
  kafka.broker.topics.create(TOPIC, 1)
  const batch = Array.from({ length: RECORDS }, (_, at) => recordAt(at, at === MALFORMED ? { id: 'nonsense' } : {}))
  const messages = batch.map(({ headers, value }) => ({
    topic: TOPIC,
    headers: new Map(headers as [Buffer, Buffer][]),
    value,
  }))
  kafka.broker.topics.log(TOPIC, 0)?.append(Buffer.from(createRecordsBatch(messages as never).buffer))

  const errors: string[] = []
  const { handler } = createInbox(watch, async ({ records }) => {
    await ingest(records, deps(pool)).catch((error: Error & { code?: string }) => {
      errors.push(error.code ?? 'no code')
      watch.touch()
      throw error
    })
  })
  const stream: Stream = resources.use(testStream({ brokers: kafka.brokers, handler, log: readableLog(watch).log }))
  return {
    admin,
    database: new URL(dsn).pathname.slice(1),
    way,
    watch,
    stream,
    errors,
    committed: () => kafka.committed(TOPIC, 0),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

/** An ordinary user that sees all tenants, as the hub's is: a superuser would be let in where others are not. */
async function makeRole(admin: Pool): Promise<void> {
  await admin.query(`do $$ begin create role ${ROLE} login password '${ROLE}';
    exception when duplicate_object or unique_violation then null; end $$`)
  await admin.query(`alter role ${ROLE} bypassrls connection limit -1`)
  for (const kind of ['tables', 'sequences', 'functions']) {
    await admin.query(`grant all on all ${kind} in schema public to ${ROLE}`)
  }
}

interface Way extends AsyncDisposable {
  port: number
  /** Cuts every connection that is open. */
  cut(): void
  /** Cuts, and takes none any more. */
  close(): Promise<void>
  open(): Promise<void>
}

/** A port that leads to the database. */
async function openWay(target: URL): Promise<Way> {
  const sockets = new Set<Socket>()
  const socketFolder = target.searchParams.get('host')
  const serve = async (port: number): Promise<Server> => {
    const server = createServer((socket) => {
      const through = socketFolder
        ? connect(`${socketFolder}/.s.PGSQL.${target.port || '5432'}`)
        : connect(Number(target.port), target.hostname)
      for (const [one, other] of [[socket, through] as const, [through, socket] as const]) {
        sockets.add(one)
        one.pipe(other)
        one.on('error', () => other.destroy())
        one.on('close', () => {
          sockets.delete(one)
          other.destroy()
        })
      }
    })
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return server
  }
  let server = await serve(0)
  const { port } = server.address() as AddressInfo
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  const close = async (): Promise<void> => {
    cut()
    server.close()
    await once(server, 'close')
  }
  const open = async (): Promise<void> => void (server = await serve(port))
  return { port, cut, close, open, [Symbol.asyncDispose]: close }
}

/** Holds back every insertion of an event until the fault is over. */
async function locked({ admin }: Scene): Promise<() => Promise<void>> {
  const holder = await admin.connect()
  await holder.query('begin; lock table event_inbox in share mode')
  return async () => {
    await holder.query('commit')
    holder.release()
  }
}

/** Does `harm` to whoever waits for the lock, again and again. */
async function whileLocked(scene: Scene, harm: (pid: number) => unknown): Promise<() => Promise<void>> {
  const release = await locked(scene)
  const harming = whenever(scene, async ({ pid }) => void (await harm(pid)))
  return async () => {
    await harming.stop()
    await release()
  }
}

/** Looks for sessions of the hub that wait for a lock, until stopped. */
function whenever({ admin }: Scene, act: (waiting: { pid: number }) => Promise<void>): { stop: () => Promise<void> } {
  const stopping = new AbortController()
  const looking = (async () => {
    while (!stopping.signal.aborted) {
      const { rows } = await admin.query<{ pid: number }>(
        "select pid from pg_stat_activity where usename = $1 and wait_event_type = 'Lock' and datname = current_database()",
        [ROLE],
      )
      for (const row of rows) await act(row)
    }
  })()
  return {
    stop: async () => {
      stopping.abort()
      await looking
    },
  }
}

/** Changes a lane while the hub waits for it, so that what it saw at its beginning is no longer true. */
async function whileLaneLocked(scene: Scene): Promise<() => Promise<void>> {
  const holder = await scene.admin.connect()
  const change = 'begin; update lane set wake_gen = wake_gen + 1'
  await holder.query(change)
  const changing = whenever(scene, async () => {
    await holder.query(`commit; ${change}`)
  })
  return async () => {
    await changing.stop()
    await holder.query('commit')
    holder.release()
  }
}

/** Has the second lane, and asks for the first one as soon as the hub has that and waits for the second: the hub finds it out first. */
async function deadlocked(scene: Scene): Promise<() => Promise<void>> {
  const { rows } = await scene.admin.query<{ id: string }>('select subscription_id as id from lane order by 1')
  const [first, second] = rows
  const holder = await scene.admin.connect()
  const take = 'select from lane where subscription_id = $1 for update'
  const begin = async (): Promise<void> => {
    await holder.query("begin; set local deadlock_timeout = '1h'")
    await holder.query(take, [second?.id])
  }
  await begin()
  const crossing = whenever(scene, async () => {
    await holder.query(take, [first?.id])
    await holder.query('rollback')
    await begin()
  })
  return async () => {
    await crossing.stop()
    await holder.query('rollback')
    holder.release()
  }
}

function raised(code: string): Inflict {
  return async ({ admin }) => {
    await raiseWhen(admin, code, 'true')
    return () => admin.query('drop trigger refuse on event_inbox')
  }
}

function raiseFor(admin: Pool, code: string): Promise<void> {
  return raiseWhen(admin, code, "new.event_key = 'loan_application.refused'")
}

async function raiseWhen(admin: Pool, code: string, condition: string): Promise<void> {
  await admin.query(`create function refuse() returns trigger language plpgsql as $$
    begin raise exception 'as the server would say it' using errcode = '${code}'; end $$`)
  await admin.query(
    `create trigger refuse before insert on event_inbox for each row when (${condition}) execute function refuse()`,
  )
}
