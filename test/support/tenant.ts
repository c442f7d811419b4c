// A tenant's database for tests of single statements: each runs in a tenant's transaction of its own.
import type { Pool } from '../../src/store/pool.ts'
import { tenantStore, type TenantDatabase } from '../../src/store/tenant.ts'

/** As `asTenant` gives it, without its end. */
export function tenantDatabase(pool: Pool, tenantId: string): TenantDatabase {
  const asTenant = tenantStore(pool)
  const query = async (...given: Parameters<TenantDatabase['query']>) =>
    await asTenant({ tenantId }, async (db) => db.query(...given))
  return { tenantId, query } as unknown as TenantDatabase
}
