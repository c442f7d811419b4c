// `streaming-hub keys kek | rotate-kek`: which key-encryption keys the stored secrets need, and all of them sealed by the current one.
import { systemClock } from '../base/clock.ts'
import { kekSources, type Config } from '../config.ts'
import { keyIds, openKeyRing } from '../secrets/keyring.ts'
import { countSealed, type SealedCount } from '../store/sealed.ts'
import { rewrapAll, type Rewrapped, type Unopened } from '../upkeep/sealing-keys.ts'
import { withPool } from './database.ts'

export interface Printer {
  /** Results, on stdout. */
  out: (line: string) => void
  /** What happens meanwhile, on stderr. */
  err: (line: string) => void
}

/** `unopened`: some secrets do not open. */
const EXIT_CODES = { done: 0, unopened: 2 } as const

/** Prints a line for each key that is in the ring or that a stored secret names. */
export async function showKeks(config: Config, options: { json?: boolean }, { out }: Printer): Promise<void> {
  const ring = await openKeyRing(kekSources(config), { clock: systemClock })
  const ids = await keyIds(ring)
  const counts = await withPool(config, countSealed)
  const keys = [...new Set([...ids, ...counts.map(({ keyId }) => keyId)])].map((id) => standingOf(id, ids, counts))
  if (options.json) out(JSON.stringify(keys))
  else
    for (const { id, role, secrets, advice } of keys) out(`${id ?? '(none)'}  ${role}  ${secrets} secrets  ${advice}`)
}

/** Seals everything by the current key, and answers the exit code. With `json` each line is an object: progress, and the result at last. */
export async function rotateKek(config: Config, options: { json?: boolean }, { out, err }: Printer): Promise<number> {
  const ring = await openKeyRing(kekSources(config), { clock: systemClock })
  const onProgress = (progress: object & { rewrapped: number; total: number }): void =>
    options.json
      ? out(JSON.stringify({ progress }))
      : err(`${progress.rewrapped} of ${progress.total} secrets are sealed anew`)
  const result = await withPool(config, async (pool) => await rewrapAll(pool, { ring, onProgress }))
  if (options.json) out(JSON.stringify({ result }))
  else out(textOf(result))
  return result.unopened.length > 0 ? EXIT_CODES.unopened : EXIT_CODES.done
}

interface Standing {
  id: string | null
  role: 'seals' | 'opens' | 'not in the ring'
  secrets: number
  advice: string
}

function standingOf(id: string | null, ids: readonly string[], counts: readonly SealedCount[]): Standing {
  const secrets = counts.filter(({ keyId }) => keyId === id).reduce((sum, { count }) => sum + count, 0)
  if (id === null || !ids.includes(id)) {
    const advice = id === null ? 'they are no sealed secrets: see keys rotate-kek' : 'they do not open: put it back'
    return { id, role: 'not in the ring', secrets, advice }
  }
  if (id === ids[0]) return { id, role: 'seals', secrets, advice: 'stays' }
  const advice =
    secrets === 0 ? 'can be removed, once it is first on no replica' : 'is needed: run streaming-hub keys rotate-kek'
  return { id, role: 'opens', secrets, advice }
}

function textOf({ currentKey, before, after, rewrapped, unopened }: Rewrapped): string {
  return [
    `${rewrapped} secrets are sealed anew by ${currentKey}.`,
    `before: ${countsOf(before)}`,
    `after:  ${countsOf(after)}`,
    ...unopened.map(lineOf),
  ].join('\n')
}

function countsOf(counts: readonly SealedCount[]): string {
  return counts.map(({ place, keyId, count }) => `${keyId ?? '(none)'} ${count} in ${place}`).join(', ') || 'none'
}

function lineOf({ place, id, subscriptionId, field, fault }: Unopened): string {
  return `does not open (${fault.replaceAll('_', ' ')}): ${field} of subscription ${subscriptionId}, ${place} ${id}`
}
