import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { keyIds, openKeyRing, parseKeyRing, type KeyRing } from '../../src/secrets/keyring.ts'
import { createSecretBox } from '../../src/secrets/secrets.ts'
import { SEALED_PLACES, sealingKeys } from '../../src/store/sealed.ts'
import { missingKeysCheck, rewrapAll } from '../../src/upkeep/sealing-keys.ts'
import { manualClock } from '../support/clock.ts'
import { testDatabase, type TestDatabase } from '../support/database.ts'
import { fakeKms } from '../support/fake-kms.ts'
import { insertSubscription, uuid7 } from '../support/fixtures.ts'

const [K1, K2, K3] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString('base64')) as [string, string, string]
const ringOf = (...keys: string[]): KeyRing => parseKeyRing(keys.join(','))
const quiet = (): void => undefined
const clock = manualClock()

let database: TestDatabase
let subscription: string
before(async () => {
  database = await testDatabase()
  subscription = (await insertSubscription(database.pool)).id
})
after(() => database.drop())
beforeEach(() => database.pool.query('truncate subscription_secret'))

const contextOf = (field: string) => ({ tenantId: 'acme', subscriptionId: subscription, field })

/** Stores secrets that say which they are, sealed by the ring. */
async function store(ring: KeyRing, count: number, prefix = 'secret'): Promise<void> {
  const box = createSecretBox(ring)
  for (let nth = 0; nth < count; nth++) {
    const field = `${prefix}-${nth}`
    await put(field, await box.seal(`text of ${field}`, contextOf(field)))
  }
}

async function put(field: string, sealed: string): Promise<void> {
  await database.pool.query(
    `insert into subscription_secret (id, subscription_id, tenant_id, field, sealed, created_at) values ($1, $2, 'acme', $3, $4, now())`,
    [uuid7(), subscription, field, sealed],
  )
}

/** Asserts that all of them open by this ring, and are what they were; answers how many. */
async function allOpen(ring: KeyRing): Promise<number> {
  const box = createSecretBox(ring)
  const { rows } = await database.pool.query<{ field: string; sealed: string }>(
    'select field, sealed from subscription_secret',
  )
  for (const { field, sealed } of rows)
    assert.equal((await box.open(sealed, contextOf(field))).toString(), `text of ${field}`)
  return rows.length
}

function byKey(counts: { keyId: string | null; count: number }[]): Record<string, number> {
  return Object.fromEntries(counts.map(({ keyId, count }) => [keyId, count]))
}

describe('sealing everything by the current key', () => {
  test('leaves nothing that needs another one, and tells how far it is', async () => {
    await store(ringOf(K1), 120)
    await store(ringOf(K2), 3, 'new')
    const told: { rewrapped: number; total: number }[] = []
    const result = await rewrapAll(database.pool, { ring: ringOf(K2, K1), onProgress: (at) => told.push(at) })
    const [old, current] = [await keyIds(ringOf(K1)), await keyIds(ringOf(K2))].flat() as [string, string]
    assert.deepEqual(byKey(result.before), { [old]: 120, [current]: 3 })
    assert.deepEqual(byKey(result.after), { [current]: 123 })
    assert.deepEqual([result.rewrapped, result.unopened, result.currentKey], [120, [], current])
    assert.deepEqual(
      told.map(({ rewrapped }) => rewrapped),
      [50, 100, 120],
    )
    assert.equal(told.at(-1)?.total, 120)
    assert.equal(await allOpen(ringOf(K2)), 123, 'without the old key')
  })

  test('by several at one time does no harm, nor does one that is cut off in the middle', async () => {
    await store(ringOf(K1), 130)
    const ring = ringOf(K2, K1)
    const cut = rewrapAll(database.pool, {
      ring,
      onProgress: () => {
        throw new Error('killed')
      },
    })
    await assert.rejects(cut, /killed/)
    const results = await Promise.all([1, 2, 3].map(() => rewrapAll(database.pool, { ring, onProgress: quiet })))
    assert.equal(
      results.reduce((sum, { rewrapped }) => sum + rewrapped, 0),
      80,
      '50 were done before it was cut off',
    )
    assert.equal(await allOpen(ringOf(K2)), 130)
  })

  test('overwrites nothing that has changed since it was read, and finds it in the next pass', async () => {
    await store(ringOf(K1), 60)
    const box = createSecretBox(ringOf(K1))
    let changed = false
    const ring = ringOf(K2, K1)
    // Between its reading of the second page and its writing: the row is replaced, by a replica that has the old key first.
    const raced = {
      query: async (text: never, values: never) => {
        if (String(text).startsWith('update') && !changed) {
          changed = true
          const sealed = await box.seal('text of secret-3', contextOf('secret-3'))
          await database.pool.query("update subscription_secret set sealed = $1 where field = 'secret-3'", [sealed])
        }
        return await database.pool.query(text, values)
      },
    } as unknown as TestDatabase['pool']
    const { rewrapped } = await rewrapAll(raced, { ring, onProgress: quiet })
    assert.equal(rewrapped, 60)
    assert.equal(await allOpen(ringOf(K2)), 60)
  })

  test('names what does not open, without its content, and goes on with the rest', async () => {
    await store(ringOf(K1), 55)
    await store(ringOf(K3), 1, 'lost')
    await put('moved', await createSecretBox(ringOf(K1)).seal('x', contextOf('elsewhere')))
    await put('broken', '{"protected":"PLANTED-content"}')
    const { unopened, rewrapped } = await rewrapAll(database.pool, { ring: ringOf(K2, K1), onProgress: quiet })
    assert.equal(rewrapped, 55)
    assert.deepEqual(
      unopened.map(({ field, fault, subscriptionId }) => `${field} ${fault} ${subscriptionId}`).sort(),
      ['broken malformed', 'lost-0 unknown_key', 'moved not_authentic'].map((end) => `${end} ${subscription}`),
    )
    assert.doesNotMatch(JSON.stringify(unopened), /PLANTED/)
  })

  test('moves from a variable to KMS and back; while KMS is away it stops, and goes on later from there', async () => {
    await using kms = await fakeKms()
    Object.assign(process.env, kms.env)
    await store(ringOf(K1), 70)
    const env = { kind: 'env' as const, value: K1 }
    const arn = kms.createKey()
    const inKms = { kind: 'aws-kms' as const, keys: [{ ref: arn, region: 'eu-test-1' }] }
    const ring = await openKeyRing([inKms, env], { clock })
    const first = rewrapAll(database.pool, { ring, onProgress: () => kms.fail('denied') })
    await assert.rejects(first, /KMS did not make a data key.*AccessDenied/)
    kms.fail('denied', 0)
    const again = await openKeyRing([inKms, env], { clock })
    const { rewrapped } = await rewrapAll(database.pool, { ring: again, onProgress: quiet })
    assert.equal(rewrapped, 20)
    assert.equal(await allOpen(await openKeyRing([inKms], { clock })), 70)
    await rewrapAll(database.pool, { ring: await openKeyRing([env, inKms], { clock }), onProgress: quiet })
    assert.equal(await allOpen(ringOf(K1)), 70)
  })
})

test('a replica that lacks a key says so, without its id, and looks again after half a minute', async () => {
  await store(ringOf(K1), 2)
  await store(ringOf(K2), 1, 'new')
  assert.deepEqual(await sealingKeys(database.pool), [...(await keyIds(ringOf(K1, K2)))].sort())
  assert.equal(await missingKeysCheck(database.pool, { ring: ringOf(K2, K1), clock })(), null)
  const check = missingKeysCheck(database.pool, { ring: ringOf(K2), clock })
  assert.match((await check()) ?? '', /sealed by a key that this replica does not have/)
  await database.pool.query("delete from subscription_secret where field like 'secret-%'")
  assert.notEqual(await check(), null)
  clock.advance(30_000)
  assert.equal(await check(), null)
})

test('every column of sealed texts is in the list, with the key that sealed it beside it', async (t) => {
  const { rows } = await database.pool.query<{ name: string; columns: string[] }>(
    `select c.relname as name, array_agg(a.attname::text) as columns from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and a.attnum > 0 and not a.attisdropped
     group by c.relname having bool_or(a.attname like '%sealed%') order by 1`,
  )
  assert.deepEqual(
    rows.map(({ name }) => name),
    [...SEALED_PLACES].sort(),
    'see src/store/sealed.ts',
  )
  for (const { name, columns } of rows) {
    assert.deepEqual(
      columns.filter((column) => column.includes('sealed')),
      ['sealed'],
      name,
    )
    assert.ok(columns.includes('key_id'), `${name} needs key_id generated by sealed_by(sealed)`)
  }
  t.diagnostic(`${rows.length} of them`)
})
