// The database as one tenant sees it. What tenants ask for runs in a transaction of `asTenant`: as a role that row security holds
// to the tenant's own rows, whatever a statement says. Statements compare the tenant themselves too: that is the first wall, and
// what finds the rows; this is the second. See migrations/0006_row_security.sql for the role and its policies.
import assert from 'node:assert/strict'
import { escapeLiteral } from 'pg'
import type { Database, Pool } from './pool.ts'
import { transaction } from './transaction.ts'

declare const scoped: unique symbol

/** A connection inside a tenant's transaction. Only `asTenant` makes one, so what takes one cannot be called without a tenant. */
export interface TenantDatabase extends Database {
  readonly tenantId: string
  readonly [scoped]: true
}

/**
 * Runs `work` in a transaction of its own that sees and changes one tenant's rows and nothing else. Rejects with what it throws,
 * and then nothing has changed. Nobody waits inside it for anything but the database, nor begins another one: it holds a connection.
 */
export type AsTenant = <T>(
  tenant: { readonly tenantId: string },
  work: (db: TenantDatabase) => Promise<T>,
) => Promise<T>

/** All that tenants' routes get of the database. */
export function tenantStore(pool: Pool): AsTenant {
  return async ({ tenantId }, work) =>
    await transaction(
      pool,
      async (client) => {
        let open = true
        const query = (...given: Parameters<Database['query']>) => {
          // After its transaction the connection is somebody else's.
          assert(open, "a tenant's transaction was used after its end")
          return client.query(...given)
        }
        try {
          return await work({ tenantId, query } as unknown as TenantDatabase)
        } finally {
          open = false
        }
      },
      beginAs(tenantId),
    )
}

/** One message: a round trip is what a tenant's transaction costs beside its own begin and commit. */
function beginAs(tenantId: string): string {
  assert(tenantId !== '' && !tenantId.includes('\0'), 'a tenant has a name')
  return `begin; set local role streaming_hub_tenant; set local streaming_hub.tenant_id = ${escapeLiteral(tenantId)}`
}

/** What keeps the database's user from working as a tenant and for all of them; null: nothing. */
export async function tenantRoleProblem(db: Database): Promise<string | null> {
  const { rows } = await db.query<{ user: string; member: boolean; walled: boolean }>(TENANT_ROLE)
  const { user, member, walled } = rows[0]!
  if (!member) return `The database user ${user} may not act for tenants: run "grant streaming_hub_tenant to ${user}".`
  if (walled) return `The database user ${user} does not own the hub's tables: grant it the role that does.`
  return null
}

// Since version 16 a membership need not allow to become the role.
const TENANT_ROLE = `
select current_user as user, row_security_active('subscription') as walled,
  pg_has_role(session_user, 'streaming_hub_tenant', case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)
    as member`
