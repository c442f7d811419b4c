// Which key-encryption keys the stored secrets are sealed by, and how they all get to the current one: opened and sealed anew, in
// batches, each text only where it is still as it was read. So any number of runs may go on at one time beside everything else, and
// one that was cut off is simply begun again: what is done already names the current key.
import type { Clock } from '../base/clock.ts'
import { keyIds, type KeyRing } from '../secrets/keyring.ts'
import { createSecretBox, SecretError, type SecretBox, type SecretFault } from '../secrets/secrets.ts'
import type { Database } from '../store/pool.ts'
import { countSealed, listSealed, replaceSealed, SEALED_PLACES, sealingKeys } from '../store/sealed.ts'
import type { SealedCount, SealedPlace, SealedText } from '../store/sealed.ts'

/** With a key service, so many calls are under way at one time. */
const BATCH = 50
/** What a replica that still seals by an old key writes meanwhile is found by the next pass. */
const MAX_PASSES = 10
const LOOK_MS = 30_000

/** A text that does not open; named, and never shown. */
export interface Unopened {
  place: SealedPlace
  id: string
  tenantId: string
  subscriptionId: string
  field: string
  fault: SecretFault
}

export interface Rewrapped {
  currentKey: string
  before: SealedCount[]
  after: SealedCount[]
  rewrapped: number
  unopened: Unopened[]
}

export interface RewrapProgress {
  rewrapped: number
  unopened: number
  /** What was sealed by other keys when it began. */
  total: number
}

/**
 * Seals everything by the ring's first key. What does not open is answered, and stays as it is. Rejects with a `SecretError` when the
 * key service cannot be asked: what was done until then is done.
 */
export async function rewrapAll(
  db: Database,
  { ring, onProgress }: { ring: KeyRing; onProgress: (progress: RewrapProgress) => void },
): Promise<Rewrapped> {
  const box = createSecretBox(ring)
  const [currentKey = ''] = await keyIds(ring)
  const before = await countSealed(db)
  const total = othersThan(currentKey, before)
  let rewrapped = 0
  let unopened: Unopened[] = []
  for (let pass = 0; pass < MAX_PASSES && othersThan(currentKey, await countSealed(db)) > unopened.length; pass++) {
    unopened = []
    for (const place of SEALED_PLACES) {
      for await (const done of rewrapPlace(db, box, { place, currentKey })) {
        rewrapped += done.rewrapped
        unopened.push(...done.unopened)
        onProgress({ rewrapped, unopened: unopened.length, total })
      }
    }
  }
  return { currentKey, before, after: await countSealed(db), rewrapped, unopened }
}

/** For readiness: null, or how many keys a replica with this ring lacks. It looks every half a minute; ids are told by the doctor alone. */
export function missingKeysCheck(
  db: Database,
  { ring, clock }: { ring: KeyRing; clock: Clock },
): () => Promise<string | null> {
  let looked: { until: number; problem: Promise<string | null> } | null = null
  return async () => {
    if (looked === null || clock.now() >= looked.until)
      looked = { until: clock.now() + LOOK_MS, problem: missingKeysProblem(db, ring) }
    return await looked.problem
  }
}

async function missingKeysProblem(db: Database, ring: KeyRing): Promise<string | null> {
  const known = new Set(await keyIds(ring))
  const missing = (await sealingKeys(db)).filter((id) => !known.has(id)).length
  if (missing === 0) return null
  return `stored secrets are sealed by ${missing === 1 ? 'a key' : `${missing} keys`} that this replica does not have: what needs them is postponed`
}

function othersThan(keyId: string, counts: readonly SealedCount[]): number {
  return counts.filter((found) => found.keyId !== keyId).reduce((sum, { count }) => sum + count, 0)
}

async function* rewrapPlace(
  db: Database,
  box: SecretBox,
  { place, currentKey }: { place: SealedPlace; currentKey: string },
): AsyncGenerator<{ rewrapped: number; unopened: Unopened[] }> {
  for (let after: string | null = null; ;) {
    const texts: SealedText[] = await listSealed(db, place, { notBy: currentKey, after, limit: BATCH })
    if (texts.length === 0) return
    after = texts.at(-1)?.id ?? null
    const ends = await Promise.all(texts.map((text) => sealAnew(box, text)))
    const sealed = ends.flatMap((end) => ('sealed' in end ? [end] : []))
    const unopened = ends.flatMap((end) => ('fault' in end ? [{ place, ...end }] : []))
    yield { rewrapped: await replaceSealed(db, place, sealed), unopened }
  }
}

async function sealAnew(
  box: SecretBox,
  { id, sealed: before, ...context }: SealedText,
): Promise<{ id: string; before: string; sealed: string } | Omit<Unopened, 'place'>> {
  try {
    return { id, before, sealed: await box.seal(await box.open(before, context), context) }
  } catch (error) {
    if (!(error instanceof SecretError) || error.fault === 'unavailable') throw error
    return { id, ...context, fault: error.fault }
  }
}
