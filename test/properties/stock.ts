// What requests can name: the ids and cursors that answers have told, and of which tenant they are.
import type { Answer } from './answers.ts'
import type { Tenant, Wish } from './requests.ts'

/** Which objects a list or an answer has, where its path does not say it: by the operation. */
const HOMES: Record<string, string> = {
  'GET /v1/subscriptions/{id}/deliveries': '/v1/deliveries/',
  'POST /v1/deliveries/{id}/retry': '/v1/deliveries/',
  'POST /v1/subscriptions/{id}/replay': '/v1/replays/',
  'GET /v1/subscriptions/{id}/replays': '/v1/replays/',
}
const OPERATORS = 'operators'
const MOST = 200

export class Stock {
  readonly #ids = new Map<string, string[]>()
  readonly #cursors = new Map<string, string[]>()

  /** The wish's path and query, with what it names put in. */
  pathOf({ operation, tenant, named, query }: Wish): string {
    const path = operation.path.replace(/\{\w+\}/, () => {
      if (named.of === 'nobody')
        return /^[%.]/.test(named.text) ? named.text : encodeURIComponent(toWellFormed(named.text))
      const whose = named.of === 'own' ? tenant : tenant === 'a' ? 'b' : 'a'
      const ids = this.#ids.get(keyOf(homeOf(operation.path), whose)) ?? []
      return encodeURIComponent(ids[named.pick % ids.length] ?? '01970000-0000-7000-8000-00000000ffff')
    })
    const pairs = query.map(([name, value]) => {
      const text = typeof value === 'string' ? value : this.#cursor(operation.path, value.cursor)
      return `${encodeURIComponent(toWellFormed(name))}=${encodeURIComponent(toWellFormed(text))}`
    })
    return pairs.length > 0 ? `${path}?${pairs.join('&')}` : path
  }

  /** Keeps the ids and the cursor of an answer. */
  take({ operation, tenant }: Wish, { status, bytes }: Answer): void {
    if (status >= 300 || bytes.length === 0) return
    const place = `${operation.method} ${operation.path}`
    const home = HOMES[place] ?? homeOf(`${operation.path}/{id}`)
    const value = parsed(bytes) as { id?: unknown; key?: unknown; items?: unknown[]; next_cursor?: unknown } | null
    for (const item of Array.isArray(value?.items) ? value.items : [value]) {
      const { id, key } = (item ?? {}) as { id?: unknown; key?: unknown }
      if (typeof (id ?? key) === 'string') add(this.#ids, keyOf(home, tenant), String(id ?? key))
    }
    if (typeof value?.next_cursor === 'string') add(this.#cursors, operation.path, value.next_cursor)
  }

  #cursor(path: string, pick: number): string {
    // Now and then one of another list.
    const own = this.#cursors.get(path) ?? []
    const all = pick % 8 === 0 || own.length === 0 ? [...this.#cursors.values()].flat() : own
    return all[pick % all.length] ?? 'none'
  }
}

/** `/v1/subscriptions/{id}/test` → `/v1/subscriptions/`. */
function homeOf(path: string): string {
  return path.split('{')[0] ?? path
}

function keyOf(home: string, tenant: Tenant): string {
  return home.startsWith('/admin/') ? `${OPERATORS} ${home}` : `${tenant} ${home}`
}

function add(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key) ?? []
  lists.set(key, list)
  if (!list.includes(value)) list.push(value)
  if (list.length > MOST) list.shift()
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return null
  }
}

/** Lone surrogates have no form in a URL. */
function toWellFormed(text: string): string {
  return text.toWellFormed()
}
