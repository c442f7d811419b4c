// Secrets that a test plants, and the search for them: each in every form in which a text could carry it.
import { randomBytes } from 'node:crypto'

export interface Planted {
  name: string
  value: Buffer
  /** Where it may stand, because it is no secret from whoever reads there. */
  allowed: readonly Place[]
}

export type Place = 'log' | 'trace' | 'metrics' | 'api' | 'cli' | 'database'

export interface Haystack {
  place: Place
  /** Which line, answer or table. */
  what: string
  text: Buffer
}

/** A distinctive text that is found in nothing else. */
export function distinctive(name: string): string {
  return `PLANTED-${name}-${randomBytes(12).toString('hex')}`
}

export function planted(name: string, value: Buffer | string, allowed: readonly Place[] = []): Planted {
  return { name, value: Buffer.from(value), allowed }
}

/** What was found where it must not be, one line each; holds no secret. */
export function leaks(secrets: readonly Planted[], haystacks: readonly Haystack[]): string[] {
  const searched = secrets.map((secret) => ({ ...secret, forms: Object.entries(formsOf(secret.value)) }))
  return haystacks.flatMap(({ place, what, text }) => {
    const folded = text.toString('latin1')
    return searched
      .filter(({ allowed }) => !allowed.includes(place))
      .flatMap(({ name, forms }) =>
        forms.filter(([, form]) => folded.includes(form)).map(([form]) => `${name} (${form}) in ${place}: ${what}`),
      )
  })
}

/** By name, as texts of one character a byte. */
export function formsOf(value: Buffer): Record<string, string> {
  const text = value.toString()
  const base64 = (encoding: 'base64' | 'base64url', before: number): string => {
    const digits = Buffer.concat([Buffer.alloc(before), value])
      .toString(encoding)
      .replace(/=+$/, '')
    return digits.slice(Math.ceil((before * 8) / 6), (before + value.length) % 3 === 0 ? undefined : -1)
  }
  const forms: Record<string, string> = {
    plain: value.toString('latin1'),
    hex: value.toString('hex'),
    HEX: value.toString('hex').toUpperCase(),
    'percent-encoded': Buffer.from(encodeURIComponent(text)).toString('latin1'),
    'JSON-escaped': Buffer.from(JSON.stringify(text).slice(1, -1)).toString('latin1'),
  }
  for (const before of [0, 1, 2])
    for (const encoding of ['base64', 'base64url'] as const)
      forms[`${encoding} at ${before}`] = base64(encoding, before)
  return forms
}
