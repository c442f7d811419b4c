// What a change of a subscription comes to, field by field, for the audit trail: as the API shows the fields, so that no secret can be
// among them.
import { isDeepStrictEqual } from 'node:util'
import { pointerPart, SECRET_MASK } from '../event/sink-secrets.ts'
import type { Subscription } from '../event/subscription.ts'
import type { FieldChange } from '../store/subscription-history.ts'
import { viewSubscription } from './views/subscription.ts'

/**
 * The fields that differ, by JSON pointers, down to the leaves of objects; lists are compared as a whole. `before` null: it is new. Of
 * `replaced` secrets, whose masks are the same, it is said all the same that they have changed.
 */
export function fieldChanges(
  before: Subscription | null,
  after: Subscription,
  replaced: readonly string[] = [],
): FieldChange[] {
  const changes = differences('', before && shown(before), shown(after))
  const silent = replaced.filter((field) => !changes.some((change) => change.field === field))
  return [...changes, ...silent.map((field) => ({ field, old: SECRET_MASK, new: SECRET_MASK }))]
}

/** Without what is the object's own or only follows from a change. */
function shown(subscription: Subscription): Record<string, unknown> {
  const { id: _, created_at: __, updated_at: ___, disabled_at: ____, ...fields } = viewSubscription(subscription)
  return fields
}

function differences(pointer: string, old: unknown, now: unknown): FieldChange[] {
  if (!isObject(old ?? {}) || !isObject(now ?? {}) || (!isObject(old) && !isObject(now)))
    return isDeepStrictEqual(old ?? null, now ?? null) ? [] : [{ field: pointer, old: old ?? null, new: now ?? null }]
  const [olds, news] = [new Map(Object.entries(old ?? {})), new Map(Object.entries(now ?? {}))]
  const names = [...new Set([...olds.keys(), ...news.keys()])]
  return names.flatMap((name) => differences(`${pointer}/${pointerPart(name)}`, olds.get(name), news.get(name)))
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
