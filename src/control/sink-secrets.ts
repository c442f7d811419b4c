// A sink's secrets are write-only. A request that changes a sink brings each of them either anew, or as the mask that was shown in
// its place: then the stored one stays. It stays only where it was given for: whoever may edit a subscription must not
// get at a secret by having it sent to another host.
import type { Fault } from '../base/errors.ts'
import { SECRET_MASK, maskSecrets, secretPlaces, type SecretPlace } from '../event/sink-secrets.ts'
import type { SinkSettings } from '../event/subscription.ts'

/** A secret that is to be sealed and stored. */
export interface NewSecret {
  field: string
  text: string
}

/** What of `asked` may be stored in the clear, and the secrets that it brings. `stored`: the masked sink that it takes the place of. */
export function takeSecrets(
  asked: SinkSettings,
  stored: SinkSettings | null,
): { sink: SinkSettings; secrets: NewSecret[]; faults: Fault[] } {
  const places = secretPlaces(asked)
  const kept = places.filter(({ text }) => text === SECRET_MASK)
  const secrets = places.filter(({ text }) => text !== SECRET_MASK).map(({ field, text }) => ({ field, text }))
  const faults = kept.flatMap((place) =>
    keepingFault(place, asked, stored).map((message) => ({ path: place.path, message })),
  )
  return { sink: maskSecrets(asked), secrets, faults }
}

const CLIENT_SECRET = 'sink.auth.client_secret'
/** It is sent to nobody, and belongs to its certificate. */
const PRIVATE_KEY = 'sink.auth.private_key'

/** Why the stored secret cannot stay at `place`. */
function keepingFault(place: SecretPlace, asked: SinkSettings, stored: SinkSettings | null): string[] {
  const known = stored !== null && secretPlaces(stored).some(({ field }) => field === place.field)
  if (!known) return [`must be the secret itself: none is stored that ${SECRET_MASK} could stand for`]
  if (place.field === PRIVATE_KEY)
    return isSameCertificate(asked, stored) ? [] : ['must be given anew, with its certificate']
  if (hostsOf(place, asked) !== hostsOf(place, stored)) return ['must be given anew: it would be sent to another host']
  return []
}

function isSameCertificate({ auth: a }: SinkSettings, { auth: b }: SinkSettings): boolean {
  return a?.kind === 'mtls' && b?.kind === 'mtls' && a.certificate === b.certificate
}

/** Where a secret is sent, and what is had for it. */
function hostsOf({ field }: SecretPlace, { url, auth }: SinkSettings): string {
  const urls = [url, ...(auth?.kind === 'oauth2' && field === CLIENT_SECRET ? [auth.token_url] : [])]
  return urls.map((text) => URL.parse(text)?.origin).join(' ')
}
