// `npm run bench:control`: how long the API's lists and details take with many deliveries and attempts behind them (`--rows 10000000`):
// p50 and p99 of each route over HTTP, beside `select 1` through the same pool in the same run, and the pages that its statements
// touch. Exit code 1 when a statement reads a growing table from end to end.
import { parseArgs } from 'node:util'
import { Agent } from 'undici'
import type { Pool } from '../../src/store/pool.ts'
import { plansOf } from '../../test/support/plans.ts'
import { withBench } from './bench.ts'
import { controlPlane } from './control/api.ts'
import { fill } from './control/fill.ts'
import { routesOf, type BenchRoute } from './control/routes.ts'

const { values: args } = parseArgs({
  options: {
    rows: { type: 'string', default: '200000' },
    tenants: { type: 'string', default: '1000' },
    requests: { type: 'string', default: '200' },
    /** Only the plans are looked at. */
    plans: { type: 'boolean', default: false },
  },
})
const REQUESTS = Number(args.requests)
const GROWING = /^(delivery|delivery_history|attempt|event_inbox|outcome_hour)(_\d{4}w\d\d|_default)?$/

interface Figure {
  p50: number
  p99: number
}

interface Statement {
  text: string
  values: unknown[]
}

/** What the pool's connections are asked while `work` runs. */
async function recorded(pool: Pool, work: () => Promise<unknown>): Promise<Statement[]> {
  const made: Statement[] = []
  const client = await pool.connect()
  const prototype = Object.getPrototypeOf(client) as { query: (...given: unknown[]) => unknown }
  client.release()
  const plain = prototype.query
  prototype.query = function (...given: unknown[]) {
    const [text, values] = given
    if (typeof text === 'string' && /^\s*(select|with|\()/i.test(text))
      made.push({ text, values: Array.isArray(values) ? values : [] })
    return plain.apply(this, given)
  }
  try {
    await work()
  } finally {
    prototype.query = plain
  }
  return made
}

async function timed(work: () => Promise<unknown>): Promise<Figure> {
  const times: number[] = []
  for (let n = 0; n < REQUESTS + 10; n++) {
    const started = performance.now()
    await work()
    if (n >= 10) times.push(performance.now() - started)
  }
  times.sort((a, b) => a - b)
  return { p50: times[Math.floor(times.length / 2)]!, p99: times[Math.floor(times.length * 0.99)]! }
}

function shown(ms: number | undefined): string {
  return ms?.toFixed(1) ?? '-'
}

async function pagesOf(
  pool: Pool,
  route: BenchRoute,
  call: () => Promise<unknown>,
): Promise<{ pages: number; whole: string[] }> {
  const statements = await recorded(pool, call)
  const found = { pages: 0, whole: new Array<string>() }
  for (const { text, values } of statements) {
    for (const plan of await plansOf(pool, (db) => db.query(text, values), route.tenant)) {
      found.pages += plan.buffers
      found.whole.push(...plan.sequentialScans.filter((table) => GROWING.test(table)))
    }
  }
  return found
}

await withBench(async ({ pool }) => {
  const filled = await fill(pool, { rows: Number(args.rows), tenants: Number(args.tenants) })
  const api = await controlPlane(pool)
  const agent = new Agent({ connections: 1 })
  const get = async ({ url, tenant }: BenchRoute): Promise<unknown> => {
    const headers = tenant === null ? {} : { 'x-tenant-id': tenant }
    const answer = await agent.request({ origin: api.origin, path: url, method: 'GET', headers })
    const text = await answer.body.text()
    if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.statusCode} ${text}`)
    return JSON.parse(text)
  }
  console.log(
    `${filled.rows} deliveries and attempts of ${filled.tenants} tenants, filled in ${filled.seconds.toFixed(0)} s`,
  )
  console.log('| route | p50 ms | p99 ms | `select 1` p99 ms | pages |\n| --- | ---: | ---: | ---: | ---: |')
  for (const route of await routesOf(filled, get)) {
    const { pages, whole } = await pagesOf(pool, route, () => get(route))
    if (whole.length > 0) {
      console.error(`${route.name} reads ${whole.join()} from end to end`)
      process.exitCode = 1
    }
    const own = args.plans ? null : await timed(() => get(route))
    const bare = args.plans ? null : await timed(() => pool.query('select 1'))
    console.log(`| ${route.name} | ${shown(own?.p50)} | ${shown(own?.p99)} | ${shown(bare?.p99)} | ${pages} |`)
  }
  await agent.close()
  await api.stop()
})
