// The authority that signed the brokers' certificates: as text, as a file, several at once, and never silently none.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { rootCertificates } from 'node:tls'
import { systemClock } from '../../src/base/clock.ts'
import { kafkaConnection } from '../../src/stream/connection.ts'
import { selfSigned } from '../support/certificate.ts'

const [one, other] = [selfSigned('one.test'), selfSigned('other.test')]

async function trusted(caCert: string | null): Promise<unknown> {
  const access = { brokers: ['127.0.0.1:9093'], clientId: 'test', tlsEnabled: true, sasl: null, oauth: null }
  return (await kafkaConnection({ ...access, caCert }, systemClock)).tls?.ca
}

test('an authority as text or in a file is trusted beside the public ones', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'authority-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'bundle.pem')
  await writeFile(file, `# two of them\n${one.cert}\n${other.cert}`)
  assert.equal(await trusted(null), undefined)
  assert.equal(((await trusted(one.cert)) as string[]).length, rootCertificates.length + 1)
  assert.equal(((await trusted(file)) as string[]).length, rootCertificates.length + 2)
})

const useless: [string, string, RegExp][] = [
  ['a file that is not there', '/nowhere/ca.pem', /authority in \/nowhere\/ca\.pem cannot be used: ENOENT/],
  ['a file without a certificate', import.meta.filename, /cannot be used: there is no PEM certificate in it$/],
  ['a key', one.key, /cannot be used: there is no PEM certificate in it$/],
  ['a mangled certificate', one.cert.replace('MII', 'xxx').slice(0, 200) + one.cert.slice(260), /cannot be used: /],
]
for (const [what, caCert, message] of useless) {
  test(`${what} is no authority, and is said to be none`, async () => {
    await assert.rejects(trusted(caCert), ({ message: said }: Error) => {
      assert.match(said, message)
      assert.ok(!said.includes(one.key.slice(40, 80)))
      return true
    })
  })
}
