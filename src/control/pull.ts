// One pull: a page of events behind a cursor; where there is none yet, and the caller waits, as soon as there is one. A page is read in a
// transaction of its own, and no connection is held while waiting.
import type { Clock } from '../base/clock.ts'
import { HubError } from '../base/errors.ts'
import { BEGINNING, inboxHorizon, pullEvents, type Position, type Pulled, type PullQuery } from '../store/pull.ts'
import type { AsTenant } from '../store/tenant.ts'
import type { Arrivals } from './arrivals.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'

const LIST = 'events'

export interface PullDeps {
  asTenant: AsTenant
  arrivals: Arrivals
  clock: Clock
}

export interface Pull {
  tenant: { tenantId: string }
  from: 'earliest' | 'latest'
  /** In place of `from`. */
  cursor: string | undefined
  query: Omit<PullQuery, 'after'>
  waitMs: number
  /** Aborts when nobody waits for the answer any more, or the hub is about to go: what there is then is the answer. */
  signal: AbortSignal
}

/** Throws `invalid_request` for a cursor that is none, and `conflict` for one that this database has never given out. */
export async function pull(asked: Pull, { asTenant, arrivals, clock }: PullDeps): Promise<Pulled> {
  const read = async (after: Position): Promise<Pulled> =>
    await asTenant(asked.tenant, async (db) => await pullEvents(db, { ...asked.query, after }))
  let page = await read(await startOf(asked, asTenant))
  if (page.isAhead) throw aheadOfUs()
  const end = clock.now() + asked.waitMs
  while (isToWait(page) && clock.now() < end && !asked.signal.aborted) {
    await waitFor(page, { asked, arrivals, clock, ms: end - clock.now() })
    if (!asked.signal.aborted && clock.now() < end) page = await read(page.next)
  }
  return page
}

/** With more to look at the caller comes again at once: nobody is kept waiting while there is something to do. */
function isToWait({ events, more }: Pulled): boolean {
  return events.length === 0 && !more
}

async function waitFor(
  { horizon }: Pulled,
  { asked, arrivals, clock, ms }: { asked: Pull; arrivals: Arrivals; clock: Clock; ms: number },
): Promise<void> {
  const done = new AbortController()
  const over = new AbortController()
  void clock.sleep(ms, done.signal).then(() => over.abort())
  await arrivals.arrived(asked.tenant.tenantId, horizon, AbortSignal.any([asked.signal, over.signal]))
  done.abort()
}

async function startOf({ cursor, from, tenant }: Pull, asTenant: AsTenant): Promise<Position> {
  const key = decodeCursor(LIST, cursor, (text) => POSITION.test(text))
  if (key !== null) {
    const [xid = '', seq = ''] = key.split('.')
    return { xid, seq }
  }
  return from === 'earliest' ? BEGINNING : { xid: await asTenant(tenant, inboxHorizon), seq: '0' }
}

/** Each fits into 64 bits. */
const POSITION = /^\d{1,18}\.\d{1,18}$/

/** Of a position between two events: it says nothing of filters, so it goes with any. */
export function cursorOf({ xid, seq }: Position): string {
  return encodeCursor(LIST, `${xid}.${seq}`)
}

function aheadOfUs(): HubError {
  const message = 'The cursor is ahead of all that is stored: the database was restored to an earlier moment.'
  const faults = [{ path: '?cursor', message: 'must be dropped: start again with from=earliest or from=latest' }]
  return new HubError('conflict', message, { faults })
}
