// Which kinds of credentials count in an installation, in the order in which they look at a request.
import { Agent } from 'undici'
import { Troubles } from '../../base/troubles.ts'
import { ApiKeys, type ApiKeyDeps } from './api-keys.ts'
import type { Authenticator } from './authenticate.ts'
import { jwtAuthenticator, type JwtSettings } from './jwt.ts'
import { localAuthenticator } from './local.ts'
import { pluginAuthenticator } from './plugin.ts'

export interface AuthSettings {
  /** Nobody is asked who they are. */
  open: boolean
  jwt: JwtSettings | null
  plugin: { address: string; tenantClaim: string } | null
  /** Of callers who carry none. */
  tenantId: string
}

export interface Authentication {
  apiKeys: ApiKeys
  authenticators: readonly Authenticator[]
  close(): Promise<void>
}

/** Of the authorization service's answers. */
const MOST_BYTES = 64 << 10

/** API keys always; what else is configured; everybody, where it is open. */
export function createAuthentication({ open, jwt, plugin, tenantId }: AuthSettings, deps: ApiKeyDeps): Authentication {
  const { clock, log } = deps
  const troubles = new Troubles(log, clock)
  const dispatcher = new Agent({ maxResponseSize: MOST_BYTES })
  const apiKeys = new ApiKeys(deps)
  const kinds = [
    apiKeys,
    jwt && jwtAuthenticator(jwt, { clock, troubles }),
    plugin && pluginAuthenticator({ ...plugin, defaultTenantId: tenantId }, { troubles, dispatcher }),
    open ? localAuthenticator({ defaultTenantId: tenantId }) : null,
  ]
  return {
    apiKeys,
    authenticators: kinds.filter((kind) => kind !== null),
    close: async () => await dispatcher.close(),
  }
}
