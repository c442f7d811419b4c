// What the webhook sink lets be registered, as the control plane asks for it.
import type { Clock } from '../base/clock.ts'
import type { Fault } from '../base/errors.ts'
import { urlFaults } from '../sinks/webhook/address-guard.ts'
import { destinationKey } from '../sinks/webhook/destination-key.ts'
import { authFaults, authHeaderName } from '../sinks/webhook/auth.ts'
import { headersFaults } from '../sinks/webhook/header-rules.ts'
import type { SinkRules } from './subscription-draft.ts'

/** `allowPrivate` lets plain http and private addresses be registered. */
export function webhookRules({ clock, ...options }: { allowPrivate: boolean; clock: Clock }): SinkRules {
  return {
    faults: ({ url, headers, auth }) => [
      ...urlFaults(url, options).map((message) => ({ path: '/url', message })),
      ...under('/headers', headersFaults(headers, auth ? authHeaderName(auth) : null)),
      ...under('/auth', auth ? authFaults(auth, { ...options, now: clock.now() }) : []),
      ...(options.allowPrivate && auth?.kind === 'mtls' && URL.parse(url)?.protocol === 'http:'
        ? [{ path: '/url', message: 'must be an https URL' }]
        : []),
    ],
    destinationKey,
  }
}

function under(path: string, faults: readonly Fault[]): Fault[] {
  return faults.map((fault) => ({ ...fault, path: path + fault.path }))
}
