// What the webhook sink lets be registered, as the control plane asks for it.
import { urlFaults } from '../sinks/webhook/address-guard.ts'
import { destinationKey } from '../sinks/webhook/destination-key.ts'
import { headerFaults } from '../sinks/webhook/headers.ts'
import type { SinkRules } from './subscription-draft.ts'

/** `allowPrivate` lets plain http and private addresses be registered. */
export function webhookRules(options: { allowPrivate: boolean }): SinkRules {
  return {
    faults: ({ url, headers }) => [
      ...urlFaults(url, options).map((message) => ({ path: '/url', message })),
      ...headerFaults(headers).map((message) => ({ path: '/headers', message })),
    ],
    destinationKey,
  }
}
