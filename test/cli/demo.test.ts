import assert from 'node:assert/strict'
import { chmod, mkdtempDisposable, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startProgram } from '../support/cli.ts'

describe('the demo', () => {
  it('brings facts of three applications to three customers, signed, and leaves nothing behind', async () => {
    await using place = await mkdtempDisposable(join(tmpdir(), 'hub-demo-test-'))
    await chmod(place.path, 0o755)
    await using demo = startProgram(['demo'], { STREAMING_HUB_DEV_BROKER_PORT: '0', TMPDIR: place.path })
    for (const source of ['lender', 'matcher', 'ledger']) await demo.says(new RegExp(`^${source} +wrote `, 'm'))
    for (const [tenant, event] of [
      ['acme-bank', 'balance\\.changed'],
      ['globex-credit', 'loan_application\\.submitted'],
      ['initech-pay', 'transaction\\.posted'],
    ])
      await demo.says(new RegExp(`→ ${tenant} .*${event} +attempt 1 +signature valid +answered 200`))
    await demo.says(/→ globex-credit .* answered 503/)
    await demo.says(/→ globex-credit .* attempt 2 .* answered 200/)
    demo.signal('SIGINT')
    assert.equal(await demo.ended, 0, demo.output())
    assert.match(demo.output(), /\d+ facts written; \d+ deliveries taken, \d+ failed on purpose/)
    assert.doesNotMatch(
      demo.output(),
      /signature invalid|→ initech-pay .*(balance|loan)|→ globex-credit .*(transaction|match)/,
    )
    assert.deepEqual(await readdir(place.path), [])
  })
})
