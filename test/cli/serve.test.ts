import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { startReceiver, type Arrival } from '../../dev/sample-receiver.ts'
import { startProgram } from '../support/cli.ts'

const run = promisify(execFile)
const dataDir = await mkdtemp(join(tmpdir(), 'hub-serve-test-'))
after(() => rm(dataDir, { recursive: true, force: true }))

const env = {
  STREAMING_HUB_DATA_DIR: dataDir,
  STREAMING_HUB_HTTP_LISTEN_ADDR: '127.0.0.1:0',
  STREAMING_HUB_DEV_BROKER_PORT: '0',
  STREAMING_HUB_PRE_STOP_DRAIN_TIMEOUT: '0s',
  STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
}
const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
)

describe('serve, without a database and without a broker', () => {
  it(
    'says where everything is, and the lines that it prints bring a first event',
    { skip: !hasCurl && 'needs curl' },
    async (t) => {
      const arrived = Promise.withResolvers<Arrival>()
      const verified = Promise.withResolvers<void>()
      const receiver = await startReceiver({
        port: 0,
        onArrival: (arrival) => (arrival.kind === 'event' ? arrived.resolve(arrival) : verified.resolve()),
      })
      t.after(() => receiver.stop())
      await using hub = startProgram(['serve'], env)
      const [, subscribe = '', send = ''] = await hub.says(/^(curl .*)\n\n(curl .*)\n/m)
      const [, url = ''] = await hub.says(/API +(http:\S+), described at/)
      assert.match(hub.output(), /Kafka +127\.0\.0\.1:\d+ \(a development broker, in memory\)/)
      assert.match(hub.output(), new RegExp(`PostgreSQL +${dataDir}`))
      assert.match(hub.output(), /No authentication is configured/)

      const created = await run('sh', ['-c', subscribe.replace('http://127.0.0.1:9000/', receiver.url)])
      assert.match(created.stdout, /"signing_secret":"whsec_/)
      await verified.promise
      await activeOf(url)
      const sent = await run('sh', ['-c', send])
      assert.match(sent.stdout, /"verdict":"accepted"/)
      const arrival = await arrived.promise
      assert.equal(arrival.eventType, 'loan_application.approved')
      assert.equal(arrival.body.toString(), '{"amount":"1200.00"}')

      hub.signal('SIGTERM')
      hub.signal('SIGTERM')
      assert.equal(await hub.ended, 0)
      await assert.rejects(readFile(join(dataDir, 'postgres', 'cluster', 'postmaster.pid')), { code: 'ENOENT' })
    },
  )

  it('refuses to share a data directory with a hub that lives', async () => {
    await using first = startProgram(['serve'], env)
    await first.says(/is running/)
    await using second = startProgram(['serve'], env)
    assert.equal(await second.ended, 1)
    assert.match(second.output(), /Another hub is running on the data directory/)
    first.signal('SIGINT')
    assert.equal(await first.ended, 0)
  })
})

/** Until the only subscription is active: the receiver has answered, and the hub is writing that down. */
async function activeOf(url: string): Promise<void> {
  for (;;) {
    const answer = await fetch(`${url}/v1/subscriptions`, { headers: { 'x-tenant-id': 'acme' } })
    const { items } = (await answer.json()) as { items: { verification_state: string }[] }
    if (items[0]?.verification_state === 'active') return
  }
}
