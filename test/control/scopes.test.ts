// Every operation of the API × a caller without a credential, and callers with every scope but its own: nobody gets in. The
// operations and their scopes come from the API's own document.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { SCOPES, TENANTLESS_SCOPES } from '../../src/control/auth/principal.ts'
import { testControl, type Answer, type TestControl } from '../support/control.ts'
import { keyOf } from '../support/keys.ts'
import { operationsOf, type Operation } from '../support/operations.ts'
import { assertProblem } from '../support/problems.ts'

const ID = '019e2713-6fe4-7f94-a675-6d1a78280ce9'

let control: TestControl
before(async () => {
  control = await testControl({}, [])
})
after(async () => await control[Symbol.asyncDispose]())

const call = async ({ method, path, body }: Operation, headers: Record<string, string> = {}): Promise<Answer> =>
  await control.call({
    method,
    url: path.replace(/\{[^}]+\}/g, ID),
    headers,
    ...(body !== null && { body }),
  })

test('every operation turns away who brings no credential, and who lacks its scope, and nothing is changed by it', async (t) => {
  const { pool } = control.database
  let calls = 0
  const guarded = operationsOf(control).filter(({ scope }) => scope !== null)
  for (const operation of guarded) {
    const others = SCOPES.filter((scope) => scope !== operation.scope)
    const { headers } = await keyOf(control, 'acme', { scopes: others })
    const earlier = await pool.query(
      'select (select count(*) from subscription) as a, (select count(*) from api_key) as b',
    )
    const place = `${operation.method} ${operation.path}`
    const anonymous = await call(operation)
    assertProblem(anonymous, 401, 'unauthenticated')
    const unscoped = await call(operation, headers)
    const { detail } = assertProblem(unscoped, 403, 'forbidden')
    assert.ok(detail.includes(String(operation.scope)), `${place}: ${detail}`)
    calls += 2
    assert.deepEqual(
      (await pool.query('select (select count(*) from subscription) as a, (select count(*) from api_key) as b')).rows,
      earlier.rows,
      place,
    )
  }
  t.diagnostic(`${guarded.length} operations, ${calls} calls`)
})

test('every operation lets in who has its scope alone, with a tenant where it is a tenant’s', async () => {
  for (const operation of operationsOf(control)) {
    const { scope } = operation
    if (scope === null) continue
    const { headers } = await keyOf(control, 'acme', { scopes: [scope] })
    const { status, text } = await call(operation, headers)
    assert.ok(status !== 401 && status !== 403 && status < 500, `${operation.method} ${operation.path}: ${text}`)
    if (!TENANTLESS_SCOPES.includes(scope)) continue
    const nobody = await keyOf(control, null, { scopes: [scope] })
    assert.equal((await call(operation, nobody.headers)).status, status, operation.path)
  }
})

test('what asks for no credential is what watches the hub, and nothing else', () => {
  const open = operationsOf(control).filter(({ scope }) => scope === null)
  assert.deepEqual(open.map(({ path }) => path).sort(), ['/healthz', '/metrics', '/readyz'])
})
