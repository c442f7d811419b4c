// The routes that are measured: of the tenant with a fifth of all rows, of a small one, and operators'; first pages, deep ones, filters.
import type { Filled } from './fill.ts'

export interface BenchRoute {
  name: string
  url: string
  /** Null: operators. */
  tenant: string | null
}

interface List {
  items: { id: string; event_id: string }[]
  next_cursor: string | null
}

const DEEP_PAGES = 20
const FILTERS = [
  'state=queued',
  'state=retrying',
  'state=delivered',
  'state=dead_lettered',
  'kind=replay',
  'last_status=418',
  'reason=poisoned',
]

export async function routesOf(
  { big, small }: Filled,
  get: (route: BenchRoute) => Promise<unknown>,
): Promise<BenchRoute[]> {
  const routes: BenchRoute[] = []
  for (const [size, { tenant, subscription }] of [
    ['big', big],
    ['small', small],
  ] as const) {
    const add = (name: string, url: string): void => void routes.push({ name: `${name} (${size})`, url, tenant })
    const list = `/v1/subscriptions/${subscription}/deliveries`
    const page = async (query: string) => (await get({ name: '', url: `${list}?${query}`, tenant })) as List
    add('subscriptions', '/v1/subscriptions')
    add('deliveries', list)
    let deep = await page('limit=1000')
    for (let n = 0; n < DEEP_PAGES && deep.next_cursor !== null; n++)
      deep = await page(`limit=1000&cursor=${deep.next_cursor}`)
    if (deep.next_cursor !== null) add('deliveries, deep page', `${list}?cursor=${deep.next_cursor}`)
    for (const filter of FILTERS) add(`deliveries, ${filter}`, `${list}?${filter}`)
    const since = new Date(Date.now() - 14 * 86_400_000).toISOString()
    const until = new Date(Date.now() - 13 * 86_400_000).toISOString()
    add('deliveries of a day', `${list}?since=${since}&until=${until}`)
    const finished = (await page('state=delivered')).items[0]
    const open = (await page('state=queued')).items[0]
    if (finished) add('delivery with its attempts', `/v1/deliveries/${finished.id}`)
    if (open) {
      add('deliveries, event_id', `${list}?event_id=${open.event_id}`)
      add('event with its deliveries', `/v1/events/${open.event_id}`)
      add('explain', `/v1/events/${open.event_id}/explain`)
      add('deliveries, event_type', `${list}?event_type=loan.approved`)
    }
    add('health', `/v1/subscriptions/${subscription}/health`)
    add('replays', `/v1/subscriptions/${subscription}/replays`)
  }
  const operators = [
    '/admin/dead-letters',
    `/admin/dead-letters?tenant_id=${small.tenant}`,
    '/admin/tenants?limit=100',
    '/admin/breakers',
  ]
  return [...routes, ...operators.map((url) => ({ name: url, url, tenant: null }))]
}
