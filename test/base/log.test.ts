import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const SECRET = 'shk_0123456789ab_very-secret'
const LOG = new URL('../../src/base/log.ts', import.meta.url).href

test('a credential that somebody logs with the headers does not get into the log', () => {
  const headers = { authorization: `Bearer ${SECRET}`, 'x-api-key': SECRET, cookie: SECRET, 'x-other': 'shown' }
  const given = [{ headers }, { req: { headers } }, { error: { request: { headers } } }]
  const program = `import { createLog } from ${JSON.stringify(LOG)}
    const log = createLog('info')
    for (const record of ${JSON.stringify(given)}) log.info(record, 'looked at')
    log.child(${JSON.stringify({ headers })}).info('looked at')`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' })
  assert.equal(stdout.match(/looked at/g)?.length, 4, stdout)
  assert.equal(stdout.match(/"x-other":"shown"/g)?.length, 4)
  assert.ok(!stdout.includes(SECRET), stdout)
})
