import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { VERSION } from '../../src/base/version.ts'
import { startProgram } from '../support/cli.ts'
import { testDatabase } from '../support/database.ts'

async function outcome(...program: Parameters<typeof startProgram>) {
  await using running = startProgram(...program)
  return { code: await running.ended, output: running.output().trim() }
}

describe('the command line', () => {
  it('says its version', async () => {
    assert.deepEqual(await outcome(['--version']), { code: 0, output: VERSION })
  })

  it('lists its commands', async () => {
    const { output } = await outcome(['--help'])
    for (const command of ['serve', 'migrate', 'demo', 'listen'])
      assert.match(output, new RegExp(`^  ${command}\\b`, 'm'))
  })

  it('refuses a command that it does not know', async () => {
    const { code, output } = await outcome(['fly'])
    assert.equal(code, 1)
    assert.match(output, /unknown command 'fly'/)
  })

  it('tells an older Node in one line', async () => {
    const older = `data:text/javascript,Object.defineProperty(process,'versions',{value:{node:'20.20.2'}})`
    const { code, output } = await outcome(['serve'], {}, ['--import', older])
    assert.equal(code, 1)
    assert.equal(output, 'Streaming Hub needs Node 24.16 or newer, and this is Node 20.20.2.')
  })
})

describe('a malformed configuration', () => {
  for (const command of ['serve', 'migrate', 'demo']) {
    it(`stops ${command} with one message that lists every fault, and no stack`, async () => {
      const faults = { STREAMING_HUB_LOG_LEVEL: 'loud', STREAMING_HUB_DISPATCH_WORKERS: '0', STREAMING_HUB_TYPO: '1' }
      const { code, output } = await outcome([command], faults)
      assert.equal(code, 1)
      assert.equal(
        output,
        [
          'The configuration has 3 faults:',
          '  STREAMING_HUB_LOG_LEVEL is "loud": expected trace, debug, info, warn, error, fatal or silent',
          '  STREAMING_HUB_DISPATCH_WORKERS is "0": expected a whole number from 1 to 256',
          '  STREAMING_HUB_TYPO is not a variable of the hub',
        ].join('\n'),
      )
    })
  }
})

describe('migrate', () => {
  it('brings the schema up to date, once', async () => {
    await using database = await testDatabase()
    await database.pool.query('drop schema public cascade')
    await database.pool.query('create schema public')
    const env = { STREAMING_HUB_POSTGRES_DSN: database.dsn }
    const first = await outcome(['migrate'], env)
    assert.equal(first.code, 0, first.output)
    assert.match(first.output, /^The schema is up to date; applied: 0001_foundation(, \w+)*\.$/)
    const found = await database.pool.query("select to_regclass('event_inbox') is not null as there")
    assert.deepEqual(found.rows, [{ there: true }])
    assert.deepEqual(await outcome(['migrate'], env), { code: 0, output: 'The schema is up to date.' })
  })

  it('says what it lacks when no database is named', async () => {
    const { code, output } = await outcome(['migrate'])
    assert.equal(code, 1)
    assert.match(output, /^STREAMING_HUB_POSTGRES_DSN is not set/)
  })

  it('says in one message that the database cannot be reached', async () => {
    const { code, output } = await outcome(['migrate'], {
      STREAMING_HUB_POSTGRES_DSN: 'postgres://hub@127.0.0.1:1/hub',
    })
    assert.equal(code, 1)
    assert.match(output, /ECONNREFUSED/)
    assert.doesNotMatch(output, /\bat .*:\d+:\d+/)
  })
})
