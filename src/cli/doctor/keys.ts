// The key-encryption keys: can they be had, and do they open what is stored.
import { access } from 'node:fs/promises'
import { systemClock } from '../../base/clock.ts'
import { kekSources, type Config } from '../../config.ts'
import { keyIds, openKeyRing } from '../../secrets/keyring.ts'
import type { KeyRing } from '../../secrets/keyring.ts'
import { createSecretBox, SecretError } from '../../secrets/secrets.ts'
import { openDiagnosis, sampleSecrets } from '../../store/diagnosis.ts'
import { fail, ok, warn, type Check, type Finding } from './finding.ts'

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
      return dsn === null ? [had] : [had, await openingFinding(dsn, ring)]
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

async function openingFinding(dsn: string, ring: KeyRing): Promise<Finding> {
  const check = 'stored secrets'
  const secrets = await sampled(dsn).catch(() => null)
  if (secrets === null)
    return warn(check, 'not looked at: the database cannot be asked, or has no schema', 'heal that first')
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
    return ok(check, secrets.length === 0 ? 'there are none' : `${secrets.length} looked at, all open`)
  const told = [...faults].map(([fault, count]) => `${fault.replaceAll('_', ' ')}: ${count} of ${secrets.length}`)
  return fail(
    check,
    told.join(', '),
    faults.has('unknown_key')
      ? 'put the key that sealed them back into the ring, behind the current one'
      : 'they were altered, or moved: tenants have to rotate them',
  )
}

async function sampled(dsn: string) {
  await using session = await openDiagnosis(dsn, ANSWER_MS)
  return await sampleSecrets(session.db, SAMPLE)
}
