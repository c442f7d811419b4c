// API keys from the command line: how the first one comes about, and what the hub makes of it.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startProgram } from '../support/cli.ts'
import { testDatabase } from '../support/database.ts'

const KEY = /^shk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/m

let env: Record<string, string>
let dataDir: string
before(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'hub-keys-test-'))
  env = {
    STREAMING_HUB_ENV: 'staging',
    STREAMING_HUB_ROLE: 'delivery',
    STREAMING_HUB_POSTGRES_DSN: (await testDatabase()).dsn,
    STREAMING_HUB_HTTP_LISTEN_ADDR: '127.0.0.1:0',
    STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: '0s',
    STREAMING_HUB_KEK_REF: 'TEST_KEK',
    TEST_KEK: randomBytes(32).toString('base64'),
    STREAMING_HUB_LOG_LEVEL: 'info',
  }
})
after(async () => await rm(dataDir, { recursive: true, force: true }))

/** Runs a command to its end; its output, or an error with it. */
async function keys(args: string[], given = env): Promise<string> {
  await using program = startProgram(['keys', ...args], given)
  const code = await program.ended
  if (code !== 0) throw new Error(program.output())
  return program.output()
}

async function until(holds: () => Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 60_000; !(await holds().catch(() => false)); await delay(50))
    assert.ok(Date.now() < deadline, `never: ${what}`)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function statusOf(url: string, key: string): Promise<number> {
  return (await fetch(`${url}/admin/tenants`, { headers: { authorization: `Bearer ${key}` } })).status
}

describe('outside local, without another way to authenticate', () => {
  test('the hub does not start before there is a key, and says how to make one', async () => {
    await using hub = startProgram(['serve'], env)
    assert.equal(await hub.ended, 1)
    assert.match(hub.output(), /no active API key.*streaming-hub keys create --name operators --scope admin/)
  })

  test('a key made on the command line lets the hub start, lets in, and is refused once it is revoked', async () => {
    const made = await keys(['create', '--name', 'operators', '--scope', 'admin', '--expires', '90d'])
    const key = KEY.exec(made)?.[0] ?? ''
    assert.ok(key, made)
    const port = await freePort()
    await using hub = startProgram(['serve'], { ...env, STREAMING_HUB_HTTP_LISTEN_ADDR: `127.0.0.1:${port}` })
    const url = `http://127.0.0.1:${port}`
    await until(async () => (await fetch(`${url}/readyz`)).ok, 'the hub is ready')
    assert.equal(await statusOf(url, key), 200)
    assert.equal(await statusOf(url, `${key.slice(0, -1)}_`), 401)
    assert.equal((await fetch(`${url}/admin/tenants`, { headers: { 'x-tenant-id': 'acme' } })).status, 401)
    const listed = await keys(['list'])
    assert.match(listed, new RegExp(`^${key.slice(0, 16)}  active  no tenant  admin  "operators"  expires .*$`, 'm'))
    assert.ok(!listed.includes(key.slice(17)) && !hub.output().includes(key.slice(17)))
    assert.match(await keys(['revoke', key.slice(0, 16)]), /revoked/)
    await until(async () => (await statusOf(url, key)) === 401, 'the revoked key is refused')
    hub.signal('SIGTERM')
    assert.equal(await hub.ended, 0)
  })

  test('a key that is revoked or has expired does not let the hub start', async () => {
    await using hub = startProgram(['serve'], env)
    assert.equal(await hub.ended, 1)
    assert.match(hub.output(), /no active API key/)
  })

  test('what cannot be a key is told before anything is made', async () => {
    const faults: [string[], RegExp][] = [
      [['create', '--name', 'x'], /--scope/],
      [['create', '--name', 'x', '--scope', 'everything'], /"everything" is no scope: expected subscriptions:read/],
      [['create', '--name', 'x', '--scope', 'events:read'], /tenant_id is required for events:read/],
      [['create', '--name', 'x', '--scope', 'admin', '--expires', 'soon'], /"soon" is no time to expire after/],
      [['create', '--name', 'x', '--scope', 'admin', '--expires', '5s'], /from 1m/],
      [['create', '--name', 'x', '--scope', 'admin', '--tenant', ' '], /The tenant must be/],
      [['create', '--name', '', '--scope', 'admin'], /The name must be/],
      [['revoke', 'nothing'], /"nothing" is no API key/],
      [['revoke', 'shk_000000000000'], /There is no such API key/],
    ]
    const earlier = await keys(['list'])
    await Promise.all(faults.map(async ([args, message]) => await assert.rejects(keys(args), message)))
    assert.equal(await keys(['list']), earlier)
  })
})

test('in local a key is made on the embedded database, whether a hub runs on it or not', async () => {
  const local = {
    STREAMING_HUB_DATA_DIR: dataDir,
    STREAMING_HUB_HTTP_LISTEN_ADDR: '127.0.0.1:0',
    STREAMING_HUB_DEV_BROKER_PORT: '0',
  }
  const create = ['create', '--name', 'mine', '--tenant', 'acme', '--scope', 'subscriptions:read', 'events:read']
  const first = KEY.exec(await keys(create, local))?.[0] ?? ''
  await using hub = startProgram(['serve'], local)
  const [, url = ''] = await hub.says(/API +(http:\S+), described at/)
  const second = KEY.exec(await keys(create, local))?.[0] ?? ''
  for (const key of [first, second]) {
    assert.ok(key)
    assert.equal((await fetch(`${url}/v1/subscriptions`, { headers: { 'x-api-key': key } })).status, 200)
    assert.equal(await statusOf(url, key), 403)
  }
  assert.match(hub.output(), /No authentication is configured/)
  hub.signal('SIGINT')
  assert.equal(await hub.ended, 0)
})
