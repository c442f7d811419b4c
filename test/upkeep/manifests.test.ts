// Manifests from fetching to the catalog, over HTTP and in PostgreSQL.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import { countIntoCatalog, listCatalog } from '../../src/store/catalog.ts'
import { manifestsChore } from '../../src/upkeep/manifests.ts'
import { publish, walk } from '../support/api.ts'
import { testControl, type TestControl } from '../support/control.ts'
import { plansOf } from '../support/plans.ts'
import { readable } from '../support/readable.ts'

let control: TestControl
let base: string
/** What is served at a path. */
let served: Record<string, object | ((response: ServerResponse) => void)>
const asked: string[] = []
const server = createServer((request, response) => {
  asked.push(request.url ?? '')
  const answer = served[request.url ?? '']
  if (typeof answer === 'function') answer(response)
  else if (answer === undefined) response.writeHead(404).end('secret of the body')
  else response.end(JSON.stringify(answer))
})
before(async () => {
  control = await testControl()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
after(async () => {
  server.closeAllConnections()
  server.close()
  await control[Symbol.asyncDispose]()
})
beforeEach(async () => {
  served = {}
  asked.length = 0
  await refresh([])
})

/** Runs the chore once; answers the error that it failed with, or what it did. */
async function refresh(paths: string[], answerMs?: number): Promise<unknown> {
  const urls = paths.map((path) => `${base}${path}`)
  const client = await control.database.pool.connect()
  const chore = manifestsChore({ urls, everyMs: 1, ...(answerMs !== undefined && { answerMs }) })
  try {
    return await chore.run(client, new Date(control.clock.now()), new AbortController().signal)
  } catch (error) {
    return (error as Error).message.replaceAll(base, '')
  } finally {
    client.release()
  }
}

const manifest = (...types: [string, string?][]): object => ({
  source: 'lender',
  event_types: types.map(([event_type, title]) => ({ event_type, ...(title !== undefined && { title }) })),
})
const catalog = async (query = ''): Promise<Record<string, unknown>[]> =>
  await walk(control, { url: `/v1/catalog${query}`, tenant: 'acme', limit: 2 })
const titles = async (query = ''): Promise<unknown[]> =>
  (await catalog(query)).map(({ event_type, title }) => `${String(event_type)} ${String(title)}`)
const states = async (): Promise<Record<string, unknown>[]> =>
  ((await control.call({ url: '/admin/manifests' })).body as { items: Record<string, unknown>[] }).items

test('types that are described are listed with those that were seen, each once, page by page', async () => {
  await publish(control, 'acme')
  await readable(control.database.pool)
  await countIntoCatalog(control.database.pool, 100)
  served = { '/1': manifest(['loan.approved', 'A loan was approved'], ['loan.closed'], ['account.opened', 'Opened']) }
  assert.equal(await refresh(['/1']), null)
  assert.deepEqual(await titles(), ['account.opened Opened', 'loan.approved A loan was approved', 'loan.closed null'])
  assert.deepEqual(await titles('?seen=true'), ['loan.approved A loan was approved'])
  assert.deepEqual(await titles('?seen=false'), ['account.opened Opened', 'loan.closed null'])
  assert.deepEqual(await titles('?event_type=loan.*'), ['loan.approved A loan was approved', 'loan.closed null'])
  assert.deepEqual(await titles('?event_type=account.opened&origin=lender'), ['account.opened Opened'])
  assert.deepEqual(await titles('?origin=ledger'), [])
  const [opened, approved] = await catalog()
  assert.deepEqual(opened, {
    source: 'lender',
    event_type: 'account.opened',
    resource_type: 'account',
    events: 0,
    first_seen_at: null,
    last_seen_at: null,
    schema_majors: [],
    example: null,
    title: 'Opened',
    description: null,
    data_schema: null,
  })
  assert.equal(approved?.['events'], 1)
})

test('of two manifests that describe a type the first one of the configuration is shown, and pages lose nothing', async () => {
  const types = Array.from({ length: 7 }, (_, at): [string, string] => [`a.b${at}`, 'first'])
  served = { '/1': manifest(...types), '/2': manifest(['a.b3', 'second'], ['a.b4', 'second'], ['a.z', 'second']) }
  await refresh(['/1', '/2'])
  const expected = [...types.map(([type]) => `${type} first`), 'a.z second']
  assert.deepEqual(await titles('?event_type=a.*'), expected)
  await refresh(['/2', '/1'])
  const turned = expected.map((line) => (/b3|b4/.test(line) ? line.replace('first', 'second') : line))
  assert.deepEqual(await titles('?event_type=a.*'), turned)
  assert.deepEqual(await refresh(['/2']), { forgotten: 1, left_out: 0 })
  assert.deepEqual(await titles('?seen=false&event_type=a.*'), ['a.b3 second', 'a.b4 second', 'a.z second'])
})

test('a manifest takes the place of the one before; one that cannot be had leaves it, and says why', async () => {
  served = { '/1': manifest(['a.b', 'old'], ['a.c', 'old']) }
  await refresh(['/1'])
  const [had] = await states()
  control.clock.advance(1_000)
  const failures: [(response: ServerResponse) => void, RegExp][] = [
    [(response) => response.writeHead(500).end('secret'), /^\/1: it was answered with the status 500$/],
    [(response) => response.writeHead(302, { location: '/2' }).end(), /status 302$/],
    [(response) => response.end('{'), /the manifest is not JSON/],
    [(response) => response.end('{}'), /\/source is not/],
    [(response) => response.end(' '.repeat(1024 * 1024 + 1)), /larger|size|exceeded/i],
    [(response) => response.destroy(), /./],
    [() => undefined, /did not answer in time$/],
    [(response) => void response.write('{'), /did not answer in time$/],
  ]
  served['/2'] = manifest(['a.x', 'redirected'])
  for (const [answer, why] of failures) {
    served['/1'] = answer
    const told = await refresh(['/1'], 300)
    assert.match(String(told), why)
    assert.deepEqual(await titles('?event_type=a.*'), ['a.b old', 'a.c old'])
    const [state] = await states()
    assert.deepEqual([state?.['succeeded_at'], state?.['event_types']], [had?.['succeeded_at'], 2])
    assert.match(String(state?.['error']), new RegExp(why.source.replace('^\\/1: ', ''), why.flags))
    assert.doesNotMatch(JSON.stringify(state), /secret/)
  }
  assert.ok(!asked.includes('/2'), 'a redirect was followed')
  served['/1'] = manifest(['a.c', 'new'], ['*'])
  assert.deepEqual(await refresh(['/1']), { forgotten: 0, left_out: 1 })
  assert.deepEqual(await titles('?event_type=a.*'), ['a.c new'])
  assert.deepEqual(await states(), [
    {
      url: `${base}/1`,
      fetched_at: new Date(control.clock.now()).toISOString(),
      succeeded_at: new Date(control.clock.now()).toISOString(),
      error: null,
      event_types: 1,
      left_out: [{ path: '/event_types/1/event_type', message: 'is not an event type <resource>.<event>' }],
    },
  ])
})

test('one manifest that cannot be had keeps no other back', async () => {
  served = { '/2': manifest(['a.b', 'second']) }
  assert.match(String(await refresh(['/1', '/2'])), /^\/1: it was answered with the status 404$/)
  assert.deepEqual(await titles('?event_type=a.*'), ['a.b second'])
})

test('the list reads both by their indexes', async () => {
  await control.database.pool.query(`
    insert into manifest (url, place, fetched_at) select 'https://m/' || n, n, now() from generate_series(1, 50) n;
    insert into described_type (source, event_key, url)
    select 'lender', 'r' || n || '.e', 'https://m/' || (n % 50 + 1) from generate_series(1, 20000) n;
    analyze described_type, catalog_entry`)
  const query = { after: null, limit: 100, origin: null, eventType: null, seen: null }
  const plans = await plansOf(control.database.pool, async (db) => await listCatalog(db, query), 'acme')
  assert.ok(plans.some(({ text }) => text.includes('described_type')))
  for (const { sequentialScans } of plans)
    assert.deepEqual(
      sequentialScans.filter((table) => table === 'described_type' || table === 'catalog_entry'),
      [],
    )
})
