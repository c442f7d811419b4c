// The opened settings of subscriptions that are being delivered to: in memory only, bounded, and for a limited time. A lane's
// version says whether what is kept is still right, so an edit or a rotated secret takes effect with the next claim.
import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { withSecrets } from '../event/sink-secrets.ts'
import { SecretError, SIGNING_SECRET, signingKey } from '../secrets/secrets.ts'
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

export type DestinationDeps = { pool: Pool; sinks: Sinks; secrets: SecretBox; clock: Clock; log: Log }

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

/**
 * Reads and opens the newest settings of a subscription. Rejects when there are none, or a secret is missing or does not open. An old
 * signing secret that is beyond repair is left out: a tenant who has rotated because of that must not be kept from anything by it.
 */
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

interface OpenedSecret {
  field: string
  text: string
  expiresAt: number | null
}

async function openSecrets(deps: DestinationDeps, settings: DeliverySettings): Promise<OpenedSecret[]> {
  const now = deps.clock.now()
  const live = settings.secrets.filter(({ expiresAt }) => expiresAt === null || now < expiresAt)
  const opened = await Promise.all(live.map((secret) => openSecret(deps, settings, secret)))
  return opened.filter((secret) => secret !== null)
}

async function openSecret(
  { secrets, log }: DestinationDeps,
  { tenantId, subscriptionId }: DeliverySettings,
  { field, sealed, expiresAt }: DeliverySettings['secrets'][number],
): Promise<OpenedSecret | null> {
  try {
    const text = (await secrets.open(sealed, { tenantId, subscriptionId, field })).toString()
    return { field, text, expiresAt }
  } catch (error) {
    const isOld = expiresAt !== null
    if (!isOld || !(error instanceof SecretError) || !isBeyondRepair(error)) throw error
    log.error({ tenant_id: tenantId, subscription_id: subscriptionId, fault: error.fault }, 'an old secret is left out')
    return null
  }
}

/** No key that is put back into the ring helps. */
function isBeyondRepair({ fault }: SecretError): boolean {
  return fault === 'malformed' || fault === 'not_authentic'
}

function missing(field: string): never {
  throw new Error(`the secret ${field} is not stored`)
}
