// The faults. Each returns when what it broke works again, or will by itself.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { ensureServer } from '../../dev/postgres.ts'
import { silentLog } from '../../src/base/log.ts'
import type { Hub, World } from './run.ts'

/** Longer than the six seconds after which a member of the group is missed in local mode. */
const PAUSE_MS = 9_000

export type FaultName = keyof typeof FAULTS

export const FAULTS = {
  'a hub is killed, and another one started': async (world) => {
    await take(world).kill()
    world.addHub()
  },
  'a hub is paused past its session, and woken': async (world) => {
    const hub = any(world)
    hub.process.kill('SIGSTOP')
    await delay(PAUSE_MS)
    hub.process.kill('SIGCONT')
  },
  'a hub is stopped in order': async (world) => {
    if (world.hubs.length < 2) world.addHub()
    await take(world).stop()
  },
  'a hub is added': async (world) => {
    if (world.hubs.length < 3) world.addHub()
  },
  'the database is stopped for a while': async (world) => {
    await world.postgres.server.stop()
    await delay(2_000)
    await revive(world)
  },
  'the database is killed': async (world) => {
    const file = join(world.postgres.server.directory, 'cluster', 'postmaster.pid')
    process.kill(Number((await readFile(file, 'utf8')).split('\n')[0]), 'SIGKILL')
    await delay(500)
    await revive(world)
  },
  'all database connections are cut': async (world) => {
    const admin = new Client({ connectionString: world.postgres.server.adminDsn })
    await admin.connect()
    await admin.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'streaming-hub%'",
    )
    await admin.end()
  },
  'the broker is killed and started again': async (world) => {
    await world.kafka.kill()
    await delay(1_000)
    await world.kafka.resume()
  },
} as const satisfies Record<string, (world: World) => Promise<void>>

async function revive({ postgres }: World): Promise<void> {
  postgres.server = await ensureServer({ dataDir: postgres.dataDir, log: silentLog })
}

function any({ hubs, random }: World): Hub {
  return hubs[Math.floor(random() * hubs.length)]!
}

function take(world: World): Hub {
  const hub = any(world)
  world.hubs.splice(world.hubs.indexOf(hub), 1)
  return hub
}
