// The key-encryption key is replaced twice while events keep coming in, secrets are rotated and subscriptions made: by the steps of
// docs/secrets.md, each with the real program. Every request that arrives is signed by a secret of its subscription, and none is missing.
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startProgram } from '../support/cli.ts'
import { testDatabase } from '../support/database.ts'
import { sendEvent } from '../support/hub-calls.ts'
import { startHub, type RunningHub } from '../support/hub.ts'
import { startReceiver, type ReceivedRequest } from '../support/receiver.ts'

const TENANT = 'acme'

// Six hubs start and stop one after the other: on a busy machine each takes its time.
const LIMIT = { timeout: 300_000 }

test('replacing the key twice under load loses nothing, and in the end no old key is needed', LIMIT, async (t) => {
  await using database = await testDatabase()
  await using directory = await mkdtempDisposable(join(tmpdir(), 'rotate-kek-'))
  await using receiver = await startReceiver((response, { body }) =>
    response.end(/"challenge":"([^"]+)"/.exec(body.toString())?.[1] ?? 'ok'),
  )
  const file = join(directory.path, 'keks')
  const env = {
    STREAMING_HUB_POSTGRES_DSN: database.dsn,
    STREAMING_HUB_DATA_DIR: directory.path,
    STREAMING_HUB_KEK_SOURCE: 'file',
    STREAMING_HUB_KEK_REF: file,
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
    STREAMING_HUB_ROLE: 'delivery',
  }
  const [k1, k2, k3] = [1, 2, 3].map(() => randomBytes(32).toString('base64')) as [string, string, string]
  let hub: RunningHub | null = null
  const ending = new AbortController()

  /** A replica with these keys takes the place of the one that ran. */
  const roll = async (...keys: string[]): Promise<void> => {
    await writeFile(file, keys.join('\n'))
    const next = await startHub(env)
    const last = hub
    hub = next
    await last?.stop()
  }
  const command = async (...args: string[]): Promise<string> => {
    await using program = startProgram(['keys', ...args], env)
    const code = await program.ended
    assert.equal(code, 0, program.output())
    return program.output()
  }
  const call = async <T>(path: string, body: object): Promise<T> => {
    const headers = { 'content-type': 'application/json', 'x-tenant-id': TENANT }
    const answer = await fetch(`${hub!.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.ok(answer.ok, await answer.clone().text())
    return (await answer.json()) as T
  }

  /** By the path that its requests come to. */
  const issued = new Map<string, { id: string; secrets: string[] }>()
  const subscribe = async (): Promise<void> => {
    const path = `/hook/${issued.size}`
    const sink = { kind: 'webhook', url: `http://127.0.0.1:${receiver.port}${path}` }
    const body = { name: path, event_types: ['*'], sink }
    const made = await call<{ id: string; signing_secret: string }>('/v1/subscriptions', body)
    issued.set(path, { id: made.id, secrets: [made.signing_secret] })
  }
  const rotate = async (): Promise<void> => {
    const all = [...issued.values()]
    const one = all[Math.floor(Math.random() * all.length)]!
    const { signing_secret } = await call<{ signing_secret: string }>(`/v1/subscriptions/${one.id}/rotate-secret`, {})
    one.secrets.push(signing_secret)
  }
  let sent = 0
  const load = async (): Promise<void> => {
    for (let nth = 1; !ending.signal.aborted; nth++) {
      // A replica that is just going refuses: then it is for the next one.
      const work =
        nth % 40 === 0 ? subscribe() : nth % 7 === 0 ? rotate() : sendEvent(hub!.url, TENANT).then(() => sent++)
      await work.catch(() => undefined)
      await delay(30)
    }
  }

  await roll(k1)
  for (let nth = 0; nth < 5; nth++) await subscribe()
  const loading = load()
  for (const [old, next] of [
    [k1, k2],
    [k2, k3],
  ] as const) {
    // The first of them takes the key before `old` away, where there was one.
    await roll(old, next)
    await roll(next, old)
    const others = old === k1 ? [command('rotate-kek')] : []
    const [first] = await Promise.all([command('rotate-kek', '--json'), ...others])
    const { result } = JSON.parse(first.trim().split('\n').at(-1)!) as {
      result: { unopened: unknown[]; after: unknown[] }
    }
    assert.deepEqual([result.unopened, result.after.length], [[], 1])
  }
  assert.match(await command('kek'), /opens {2}0 secrets {2}can be removed/)
  await roll(k3)
  ending.abort()
  await loading
  const queued = async (): Promise<number> => (await database.pool.query('select from delivery')).rowCount ?? 0
  for (const limit = Date.now() + 60_000; (await queued()) > 0; await delay(50))
    assert.ok(Date.now() < limit, 'never done')
  const events = receiver.requests.filter(({ headers }) => headers['x-lerian-event-type'] !== 'hub.verification')
  for (const request of receiver.requests) {
    const secrets = issued.get(request.path)?.secrets ?? []
    // Its creation may have been answered by a replica that was just going: then its secret is not known to us.
    if (issued.has(request.path))
      assert.ok(
        secrets.some((secret) => isSignedBy(request, secret)),
        request.path,
      )
  }
  const states = await database.pool.query(
    'select state, count(*)::integer as count from delivery_history group by state',
  )
  assert.deepEqual(states.rows, [{ state: 'delivered', count: states.rows[0]?.count as unknown }])
  const failed = await database.pool.query("select error_class from attempt where outcome = 'failed'")
  assert.deepEqual(failed.rows, [])
  assert.ok(sent > 20 && events.length >= sent, `${sent} events`)
  t.diagnostic(
    `${sent} events, ${events.length} requests, ${[...issued.values()].flatMap((one) => one.secrets).length} secrets`,
  )
  await hub!.stop()
})

function isSignedBy({ headers, body }: ReceivedRequest, secret: string): boolean {
  const [time, ...given] = String(headers['x-lerian-signature']).split(',')
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  return given.includes(
    `v1=${createHmac('sha256', key)
      .update(`${time?.slice(2)}.`)
      .update(body)
      .digest('hex')}`,
  )
}
