// /admin/singletons: the chores that one replica does for all: who holds their lock now, and how each went the last time.
import type { Pool } from '../../store/pool.ts'
import { findHolder, listRuns, type ChoreRun, type Holder } from '../../store/singleton.ts'
import type { Api } from '../api.ts'
import { Everything } from '../schemas/common.ts'
import { SingletonSchema, type SingletonJson } from '../schemas/singleton.ts'
import { isoTimeOrNull } from '../views/bytes.ts'

export interface SingletonDeps {
  pool: Pool
  /** The lock's name. */
  upkeepLock: string
}

export function singletonRoutes(api: Api, { pool, upkeepLock }: SingletonDeps): void {
  api.route({
    method: 'GET',
    url: '/admin/singletons',
    config: { access: 'admin' },
    schema: {
      operationId: 'getSingletons',
      summary: 'The chores that one replica does for all: who does them, and how they went',
      description:
        'Whoever holds the lock of upkeep does all of them; each shows its last run, by whom it was, and whether it failed.',
      tags: ['operators'],
      response: { 200: Everything(SingletonSchema) },
    },
    handler: async () => {
      const [holder, runs] = await Promise.all([findHolder(pool, upkeepLock), listRuns(pool)])
      return { items: runs.map((run) => view(run, holder)) }
    },
  })
}

function view(run: ChoreRun, holder: Holder | null): SingletonJson {
  return {
    name: run.name,
    every_seconds: run.everyMs / 1000,
    holder: holder?.holder ?? null,
    holder_connected_at: isoTimeOrNull(holder?.connectedAt ?? null),
    last: {
      holder: run.holder,
      started_at: run.startedAt.toISOString(),
      finished_at: run.finishedAt.toISOString(),
      done: run.done,
      error: run.error,
    },
  }
}
