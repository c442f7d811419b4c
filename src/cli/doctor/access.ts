// Who gets in, and between which walls: may the database's user act for tenants, and is there a way to authenticate callers.
import type { Config } from '../../config.ts'
import { hasActiveApiKey } from '../../store/api-keys.ts'
import type { Database } from '../../store/pool.ts'
import { tenantRoleProblem } from '../../store/tenant.ts'
import { fail, ok, warn, type Finding } from './finding.ts'

const FIRST_KEY = 'make a first key: streaming-hub keys create --name operators --scope admin'

/** On a database that has this program's schema. */
export async function accessFindings(db: Database, config: Config): Promise<Finding[]> {
  return [await roleFinding(db), await authenticationFinding(db, config)]
}

async function roleFinding(db: Database): Promise<Finding> {
  const problem = await tenantRoleProblem(db)
  if (problem !== null) return fail('row security', problem, 'see "The database\'s user" in docs/config.md')
  return ok('row security', 'tenants are kept apart by the database too')
}

async function authenticationFinding(db: Database, { env, auth, http }: Config): Promise<Finding> {
  const check = 'authentication'
  const kinds = [auth.jwt && 'tokens by JWKS', auth.plugin && 'the authorization service'].filter(Boolean)
  const hasKey = await hasActiveApiKey(db, new Date())
  if (auth.open && !isLoopback(http.host))
    return warn(
      check,
      `none, on ${http.host}: whoever reaches the API may do everything`,
      'listen on loopback, or set one',
    )
  if (auth.open) return ok(check, 'none, on loopback: local mode is open')
  if (!hasKey && kinds.length === 0) return fail(check, `no active API key in ${env}, and no other way in`, FIRST_KEY)
  return ok(check, [hasKey ? 'API keys' : 'no API key yet', ...kinds].join(', '))
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.')
}
