// The opened settings of subscriptions that are being delivered to: in memory only, bounded, and for a limited time. A lane's
// version says whether what is kept is still right, so an edit or a rotated secret takes effect with the next claim.
import { LRUCache } from 'lru-cache'
import { withSecrets } from '../event/sink-secrets.ts'
import { SIGNING_SECRET, signingKey } from '../secrets/secrets.ts'
import type { SecretBox } from '../secrets/secrets.ts'
import type { Sinks } from '../sinks/registry.ts'
import type { Destination, Sink } from '../sinks/sink.ts'
import { loadDeliverySettings } from '../store/delivery-settings.ts'
import type { DeliverySettings } from '../store/delivery-settings.ts'
import type { ClaimedLane } from '../store/lanes.ts'
import type { Pool } from '../store/pool.ts'

const MAX_ENTRIES = 20_000
const TTL_MS = 10 * 60_000

export interface OpenedDestination {
  sink: Sink
  destination: Destination
}

interface Opened extends OpenedDestination {
  version: number
}

export type DestinationDeps = { pool: Pool; sinks: Sinks; secrets: SecretBox }

/** A function that gives a lane's sink and opened settings; it rejects when they cannot be read or opened. */
export function destinationCache(deps: DestinationDeps): (lane: ClaimedLane) => Promise<OpenedDestination> {
  const cache = new LRUCache<string, Promise<Opened>>({ max: MAX_ENTRIES, ttl: TTL_MS })
  const load = (subscriptionId: string): Promise<Opened> => {
    const opened = openDestination(deps, subscriptionId)
    cache.set(subscriptionId, opened)
    opened.catch(() => cache.delete(subscriptionId))
    return opened
  }
  return async ({ subscriptionId, version }) => {
    const kept = await cache.get(subscriptionId)
    return kept && kept.version >= version ? kept : await load(subscriptionId)
  }
}

/** Reads and opens the newest settings of a subscription. Rejects when there are none, or a secret is missing or does not open. */
export async function openDestination(deps: DestinationDeps, subscriptionId: string): Promise<Opened> {
  const [settings] = await loadDeliverySettings(deps.pool, [subscriptionId])
  if (!settings) throw new Error('the subscription does not exist')
  const opened = await openSecrets(deps, settings)
  const { tenantId, version, contentMode, timeoutMs } = settings
  const signingKeys = opened
    .filter(({ field }) => field === SIGNING_SECRET)
    .map(({ text, expiresAt }) => ({ key: signingKey(text), expiresAt }))
  const textOf = new Map(opened.map(({ field, text }) => [field, text]))
  const sink = withSecrets(settings.sink, ({ field }) => textOf.get(field) ?? missing(field))
  const destination = { subscriptionId, tenantId, sink, contentMode, timeoutMs, signingKeys }
  return { version, sink: deps.sinks[sink.kind], destination }
}

async function openSecrets(
  deps: DestinationDeps,
  { tenantId, subscriptionId, secrets }: DeliverySettings,
): Promise<{ field: string; text: string; expiresAt: number | null }[]> {
  const open = async (sealed: string, field: string): Promise<string> =>
    (await deps.secrets.open(sealed, { tenantId, subscriptionId, field })).toString()
  return await Promise.all(
    secrets.map(async ({ field, sealed, expiresAt }) => ({ field, text: await open(sealed, field), expiresAt })),
  )
}

function missing(field: string): never {
  throw new Error(`the secret ${field} is not stored`)
}
