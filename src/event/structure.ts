// The structure of an event's data without any of its values: what a developer needs to see of a type, and nothing that anybody wrote.
import type { Event } from './event.ts'
import { hasJsonData } from './json-data.ts'

const MOST_DEPTH = 12
/** Of one object. */
const MOST_MEMBERS = 100
/** Of the whole; a structure that is larger is cut. */
const MOST_NODES = 1_000

/** Names that programs give; what else stands there (an account, an address, a number) is a value too. */
const NAME = /^[A-Za-z_$@][A-Za-z_$@-]{0,63}\d{0,2}$/

/** Undefined where the data is no JSON. Texts become "string", numbers 0, true false; a list shows its first element. */
export function structureOf(event: Pick<Event, 'attributes' | 'data'>): unknown {
  if (event.data === null || !hasJsonData(event)) return undefined
  return masked(JSON.parse(event.data.toString()), { depth: 0, left: { nodes: MOST_NODES } })
}

function masked(value: unknown, at: { depth: number; left: { nodes: number } }): unknown {
  at.left.nodes--
  if (value === null) return null
  if (typeof value === 'string') return 'string'
  if (typeof value === 'number') return 0
  if (typeof value === 'boolean') return false
  const inner = { ...at, depth: at.depth + 1 }
  const isFull = inner.depth > MOST_DEPTH || at.left.nodes <= 0
  if (Array.isArray(value)) return isFull || value.length === 0 ? [] : [masked(value[0], inner)]
  if (isFull) return {}
  const members = Object.entries(value as object).slice(0, Math.min(MOST_MEMBERS, at.left.nodes))
  return Object.fromEntries(members.map(([name, each]) => [NAME.test(name) ? name : 'string', masked(each, inner)]))
}
