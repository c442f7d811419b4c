// Local mode without authentication: everybody may do everything, as the tenant that they name themselves. The composition root
// uses it in ENV=local alone, and says so loudly.
import type { IncomingHttpHeaders } from 'node:http'
import { HubError } from '../../base/errors.ts'
import { isTenantId, TENANT_ID_RULE } from '../../event/tenant-id.ts'
import type { Authenticator } from './authenticate.ts'
import { SCOPES } from './principal.ts'

const HEADER = 'x-tenant-id'

/** The tenant is that of `x-tenant-id`, else `defaultTenantId`. */
export function localAuthenticator({ defaultTenantId }: { defaultTenantId: string }): Authenticator {
  return {
    name: 'local',
    authenticate: async ({ headers }) => ({
      tenantId: tenantOf(headers) ?? defaultTenantId,
      isConfined: false,
      scopes: new Set(SCOPES),
      kind: 'local',
      id: 'local',
      name: 'local',
    }),
  }
}

function tenantOf(headers: IncomingHttpHeaders): string | null {
  const header = headers[HEADER]
  if (header === undefined) return null
  const tenantId = utf8(String(header))
  if (tenantId === null || !isTenantId(tenantId)) {
    const faults = [{ path: HEADER, message: `must be ${TENANT_ID_RULE}` }]
    throw new HubError('invalid_request', 'The tenant is not valid.', { faults })
  }
  return tenantId
}

/** Node reads a header's bytes as Latin-1. */
function utf8(header: string): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(header, 'latin1'))
  } catch {
    return null
  }
}
