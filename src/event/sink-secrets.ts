// Which places of a sink's settings hold secrets. The settings have one shape everywhere; where a secret stands, they hold a mask
// when they are stored, shown or compared, and the secret itself only in a request that brings it and in what an attempt uses.
import type { SinkSettings, WebhookAuth } from './subscription.ts'

/** What stands for a secret; sent back by a caller, it means the one that is stored. */
export const SECRET_MASK = '***'

export interface SecretPlace {
  /** Its name where secrets are stored: `sink.auth.token`, `sink.headers.x-token`. */
  field: string
  /** Where it stands: a JSON pointer into the settings. */
  path: string
  /** What stands there. */
  text: string
}

const SECRET_OF = {
  bearer: 'token',
  basic: 'password',
  api_key: 'value',
  oauth2: 'client_secret',
  mtls: 'private_key',
} as const satisfies Record<WebhookAuth['kind'], string>

/** All places, each field once. */
export function secretPlaces(sink: SinkSettings): SecretPlace[] {
  const places: SecretPlace[] = []
  withSecrets(sink, (place) => {
    places.push(place)
    return place.text
  })
  return places
}

/** The same settings with `textOf` each place in it. */
export function withSecrets(sink: SinkSettings, textOf: (place: SecretPlace) => string): SinkSettings {
  const headers = Object.entries(sink.headers).map(([name, header]) => {
    if (typeof header === 'string') return [name, header]
    const place = { field: `sink.headers.${name.toLowerCase()}`, path: `/headers/${pointerPart(name)}/value` }
    return [name, { ...header, value: textOf({ ...place, text: header.value }) }]
  })
  return { ...sink, headers: Object.fromEntries(headers), ...(sink.auth && { auth: authWith(sink.auth, textOf) }) }
}

export function maskSecrets(sink: SinkSettings): SinkSettings {
  return withSecrets(sink, () => SECRET_MASK)
}

/** A member's name in a JSON pointer (RFC 6901). */
export function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

function authWith(auth: WebhookAuth, textOf: (place: SecretPlace) => string): WebhookAuth {
  const name = SECRET_OF[auth.kind]
  const text = String(new Map<string, unknown>(Object.entries(auth)).get(name))
  return { ...auth, [name]: textOf({ field: `sink.auth.${name}`, path: `/auth/${name}`, text }) }
}
