// The key-encryption keys: can they be had, and do they open what is stored.
import { access } from 'node:fs/promises'
import { systemClock } from '../../base/clock.ts'
import { kekSources, type Config } from '../../config.ts'
import { keyIds, openKeyRing } from '../../secrets/keyring.ts'
import type { KeyRing } from '../../secrets/keyring.ts'
import { createSecretBox, SecretError } from '../../secrets/secrets.ts'
import { openDiagnosis, sampleSecrets, type StoredSecret } from '../../store/diagnosis.ts'
import { countSealed, type SealedCount } from '../../store/sealed.ts'
import { fail, ok, warn, type Check, type Finding } from './finding.ts'

const CHECK = 'stored secrets'
const ANSWER_MS = 8_000
/** Of the oldest stored secrets, and of the newest. */
const SAMPLE = 20

export function keysCheck(config: Config): Check {
  return {
    name: 'key ring',
    advice: 'see STREAMING_HUB_KEK_SOURCE and STREAMING_HUB_KEK_REF',
    run: async () => {
      const ring = await ringOf(config)
      if (ring === null) return [ok('key ring', 'none yet: one is made in the data directory when the hub starts')]
      const ids = await keyIds(ring)
      const had = ok('key ring', `${ids.length} ${ids.length === 1 ? 'key' : 'keys'}; ${ids[0]} seals`)
      const { dsn } = config.postgres
      return dsn === null ? [had] : [had, ...(await storedFindings(dsn, { ring, ids }))]
    },
  }
}

async function ringOf(config: Config): Promise<KeyRing | null> {
  const sources = kekSources(config)
  const [first] = sources
  const isMade =
    config.kek.kind !== 'generated' ||
    (first?.kind === 'file' &&
      (await access(first.path).then(
        () => true,
        () => false,
      )))
  return isMade ? await openKeyRing(sources, { clock: systemClock }) : null
}

async function storedFindings(
  dsn: string,
  { ring, ids }: { ring: KeyRing; ids: readonly string[] },
): Promise<Finding[]> {
  const stored = await looked(dsn).catch(() => null)
  if (stored === null)
    return [warn(CHECK, 'not looked at: the database cannot be asked, or has no schema', 'heal that first')]
  return [await openingFinding(ring, stored.secrets), sealingFinding(ids, stored.counts)]
}

/** Of all of them, by the keys that they name. */
function sealingFinding(ids: readonly string[], counts: readonly SealedCount[]): Finding {
  const check = 'sealing keys'
  const missing = counts.filter(({ keyId }) => keyId !== null && !ids.includes(keyId))
  const older = counts.filter(({ keyId }) => keyId !== ids[0] && ids.includes(keyId ?? ''))
  if (missing.length > 0)
    return fail(
      check,
      `stored secrets need keys that are not in the ring: ${told(missing)}`,
      'put them back, behind the current one; deliveries that need them are postponed',
    )
  if (older.length > 0)
    return warn(check, `older ones than the first are needed: ${told(older)}`, 'run "streaming-hub keys rotate-kek"')
  return ok(check, 'every stored secret is sealed by the first key')
}

function told(found: readonly SealedCount[]): string {
  return found.map(({ keyId, count }) => `${count} by ${keyId}`).join(', ')
}

async function openingFinding(ring: KeyRing, secrets: readonly StoredSecret[]): Promise<Finding> {
  const box = createSecretBox(ring)
  const faults = new Map<string, number>()
  for (const { sealed, ...context } of secrets) {
    const fault = await box.open(sealed, context).then(
      () => null,
      (error: unknown) => (error instanceof SecretError ? error.fault : 'malformed'),
    )
    if (fault !== null) faults.set(fault, (faults.get(fault) ?? 0) + 1)
  }
  if (faults.size === 0)
    return ok(CHECK, secrets.length === 0 ? 'there are none' : `${secrets.length} looked at, all open`)
  const all = [...faults].map(([fault, count]) => `${fault.replaceAll('_', ' ')}: ${count} of ${secrets.length}`)
  return fail(
    CHECK,
    all.join(', '),
    faults.has('unavailable')
      ? 'see the key service: its status, the permissions, whether the key is enabled'
      : faults.has('unknown_key')
        ? 'put the key that sealed them back into the ring, behind the current one'
        : 'they were altered, or moved: tenants have to rotate them',
  )
}

async function looked(dsn: string): Promise<{ secrets: StoredSecret[]; counts: SealedCount[] }> {
  await using session = await openDiagnosis(dsn, ANSWER_MS)
  return { secrets: await sampleSecrets(session.db, SAMPLE), counts: await countSealed(session.db) }
}
