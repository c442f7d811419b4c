// The code of docs/receivers.md is run as it stands there, against requests that the webhook sink has really sent.
import { after, before, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { silentLog } from '../../src/base/log.ts'
import { newSigningSecret } from '../../src/secrets/secrets.ts'
import type { SigningKey } from '../../src/sinks/sink.ts'
import { createWebhookSink } from '../../src/sinks/webhook/webhook.ts'
import { aDestination, anAttempt } from '../sinks/webhook/destination.ts'
import { anEvent, uuid7 } from '../support/fixtures.ts'
import { startReceiver } from '../support/receiver.ts'

const run = promisify(execFile)
const never = new AbortController().signal
const document = await readFile(new URL('../../docs/receivers.md', import.meta.url), 'utf8')

interface Case {
  secret: string
  headers: IncomingHttpHeaders
  body: Buffer
  /** What is right for Standard Webhooks and for the platform's own signature. */
  standard: boolean
  lerian: boolean
  /** What a look at a caught request says, which minds no time. */
  untimed?: boolean
}

let folder: string
let cases: Map<string, Case>

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'receivers-'))
  for (const [, file = '', code = ''] of document.matchAll(/^```\w+ (\S+\.\w+)\n([^]*?)^```$/gm))
    await writeFile(join(folder, file), code)
  cases = await makeCases()
  for (const [name, { secret, headers, body }] of cases) {
    await mkdir(join(folder, name))
    const lines = Object.entries(headers).map(([key, value]) => `${key}: ${String(value)}\n`)
    await writeFile(join(folder, name, 'secret'), secret)
    await writeFile(join(folder, name, 'headers'), lines.join(''))
    await writeFile(join(folder, name, 'body'), body)
  }
})
after(async () => await rm(folder, { recursive: true, force: true }))

describe('the code of docs/receivers.md', () => {
  test('verifies in Node', async () => {
    const verify = (await import(pathToFileURL(join(folder, 'verify.mjs')).href)) as {
      isStandardWebhook(secret: string, headers: IncomingHttpHeaders, body: Buffer): boolean
      isLerianWebhook(secret: string, headers: IncomingHttpHeaders, body: Buffer): boolean
    }
    for (const [name, { secret, headers, body, ...right }] of cases) {
      assert.equal(verify.isStandardWebhook(secret, headers, body), right.standard, name)
      assert.equal(verify.isLerianWebhook(secret, headers, body), right.lerian, name)
    }
  })

  test('verifies in Python', async (t) => {
    if (!(await isThere('python3', '--version'))) return t.skip('there is no python3')
    await writeFile(join(folder, 'driver.py'), PYTHON)
    assertVerdicts(await run('python3', ['driver.py', ...cases.keys()], { cwd: folder }))
  })

  test('verifies in Go', async (t) => {
    if (!(await isThere('go', 'version'))) return t.skip('there is no go')
    await writeFile(join(folder, 'driver.go'), GO)
    const env = { ...process.env, GO111MODULE: 'off', GOTOOLCHAIN: 'local', GOPROXY: 'off', GOFLAGS: '' }
    assertVerdicts(await run('go', ['run', 'verify.go', 'driver.go', ...cases.keys()], { cwd: folder, env }))
  })

  test('verifies in Java', async (t) => {
    if (!(await isThere('javac', '-version'))) return t.skip('there is no javac')
    await writeFile(join(folder, 'Driver.java'), JAVA)
    await run('javac', ['Verify.java', 'Driver.java'], { cwd: folder })
    assertVerdicts(await run('java', ['-cp', '.', 'Driver', ...cases.keys()], { cwd: folder }))
  })

  test('verifies in a shell', async (t) => {
    if (!(await isThere('openssl', 'version'))) return t.skip('there is no openssl')
    for (const [name, { secret, untimed, standard, lerian }] of cases) {
      const { stdout } = await run('sh', ['verify.sh', secret, `${name}/headers`, `${name}/body`], { cwd: folder })
      const said = (right: boolean): string => ((untimed ?? right) ? 'right' : 'wrong')
      assert.equal(stdout, `webhook-signature: ${said(standard)}\nx-lerian-signature: ${said(lerian)}\n`, name)
    }
  })

  test('is a receiver: it answers the challenge, takes an event once, and refuses what is not signed', async (t) => {
    const { createReceiver } = (await import(pathToFileURL(join(folder, 'receiver.mjs')).href)) as {
      createReceiver: (given: { secret: string; remember(id: string, body: Buffer): Promise<void> }) => Server
    }
    const { text: secret, key } = newSigningSecret()
    const remembered = new Map<string, Buffer>()
    let broken = false
    const remember = async (id: string, body: Buffer): Promise<void> => {
      if (broken) throw new Error('no database')
      remembered.set(id, body)
    }
    const server = createReceiver({ secret, remember })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const sink = createWebhookSink({ allowPrivate: true, userAgentVersion: '0', log: silentLog })
    t.after(async () => {
      await sink.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const destination = aDestination(url, { signingKeys: [{ key, expiresAt: null }] })
    const event = anEvent()
    const probed = await sink.probe({ destination, attemptId: uuid7(), now: Date.now() }, never)
    const first = await sink.deliver(anAttempt(destination, { event }), never)
    const again = await sink.deliver(anAttempt(destination, { event, number: 2 }), never)
    const forged = await sink.deliver(anAttempt(aDestination(url), { event: anEvent() }), never)
    broken = true
    const refused = await sink.deliver(anAttempt(destination, { event: anEvent() }), never)
    assert.deepEqual(
      [probed, first, again, forged, refused].map(({ status }) => status),
      [200, 204, 204, 401, 503],
    )
    assert.equal(probed.kind, 'delivered')
    assert.deepEqual(remembered, new Map([[event.id, event.data]]))
  })
})

/** Real requests, as they came and as somebody has changed them. */
async function makeCases(): Promise<Map<string, Case>> {
  const [current, old] = [newSigningSecret(), newSigningSecret()]
  const now = Date.now()
  const [request, late, early, rotating, empty] = await sent([
    { keys: [current.key], now },
    { keys: [current.key], now: now - 3_600_000 },
    { keys: [current.key], now: now + 3_600_000 },
    { keys: [current.key, old.key], now: now - 100_000 },
    { keys: [current.key], now, data: Buffer.alloc(0) },
  ])
  assert.ok(request && late && early && rotating && empty)
  const secret = current.text
  const { headers, body } = request
  const right = { standard: true, lerian: true }
  const wrong = { standard: false, lerian: false }
  const altered = Buffer.from(body)
  altered[altered.length - 1]! ^= 1
  const garbage = { 'webhook-signature': 'v1 v1, v2,x v1,§', 'x-lerian-signature': 't=x,v1=,v1=zz,,=' }
  const { 'webhook-signature': _, 'x-lerian-signature': __, ...unsigned } = headers
  return new Map<string, Case>([
    ['as-it-came', { secret, ...request, ...right }],
    ['of-no-bytes', { secret, ...empty, ...right }],
    ['rotating-with-the-new-secret', { secret, ...rotating, ...right }],
    ['rotating-with-the-old-secret', { secret: old.text, ...rotating, ...right }],
    ['with-another-secret', { secret: newSigningSecret().text, ...request, ...wrong }],
    ['with-another-body', { secret, headers, body: altered, ...wrong }],
    ['with-a-longer-body', { secret, headers, body: Buffer.concat([body, Buffer.from('\n')]), ...wrong }],
    [
      'with-another-id',
      { secret, headers: { ...headers, 'webhook-id': uuid7() }, body, standard: false, lerian: true },
    ],
    [
      'with-a-newer-time',
      {
        secret,
        body: late.body,
        headers: {
          ...late.headers,
          'webhook-timestamp': headers['webhook-timestamp'],
          'x-lerian-signature': String(late.headers['x-lerian-signature']).replace(
            /t=\d+/,
            `t=${Math.floor(now / 1000)}`,
          ),
        },
        ...wrong,
      },
    ],
    ['too-late', { secret, ...late, ...wrong, untimed: true }],
    ['too-early', { secret, ...early, ...wrong, untimed: true }],
    ['unsigned', { secret, headers: unsigned, body, ...wrong }],
    ['with-garbage', { secret, headers: { ...headers, ...garbage }, body, ...wrong }],
  ])
}

async function sent(
  wanted: { keys: Buffer[]; now: number; data?: Buffer }[],
): Promise<{ headers: IncomingHttpHeaders; body: Buffer }[]> {
  await using receiver = await startReceiver()
  const sink = createWebhookSink({ allowPrivate: true, userAgentVersion: '0', log: silentLog })
  for (const { keys, now, data = randomBytes(300) } of wanted) {
    const signingKeys = keys.map((key, at): SigningKey => ({ key, expiresAt: at === 0 ? null : now + 1 }))
    const destination = aDestination(receiver.url, { signingKeys })
    const outcome = await sink.deliver(anAttempt(destination, { now, event: anEvent({ data }) }), never)
    assert.equal(outcome.kind, 'delivered')
  }
  await sink.close()
  return receiver.requests.map(({ headers, body }) => ({ headers, body }))
}

/** Each line of a driver's output: a case, and what it was found to be. */
function assertVerdicts({ stdout }: { stdout: string }): void {
  const right = [...cases].map(([name, { standard, lerian }]) => `${name} ${standard} ${lerian}`)
  assert.deepEqual(stdout.trim().split(/\r?\n/), right)
}

async function isThere(command: string, argument: string): Promise<boolean> {
  return await run(command, [argument]).then(
    () => true,
    () => false,
  )
}

const PYTHON = `
import sys
from verify import is_standard_webhook, is_lerian_webhook
for name in sys.argv[1:]:
    secret = open(name + "/secret").read()
    lines = open(name + "/headers", encoding="utf-8").read().splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    body = open(name + "/body", "rb").read()
    found = (is_standard_webhook(secret, headers, body), is_lerian_webhook(secret, headers, body))
    print(name, *(str(one).lower() for one in found))
`

const GO = `
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	for _, name := range os.Args[1:] {
		secret, _ := os.ReadFile(name + "/secret")
		lines, _ := os.ReadFile(name + "/headers")
		body, _ := os.ReadFile(name + "/body")
		headers := map[string]string{}
		for _, line := range strings.Split(string(lines), "\\n") {
			key, value, _ := strings.Cut(line, ": ")
			headers[key] = value
		}
		header := func(name string) string { return headers[name] }
		fmt.Println(name, IsStandardWebhook(string(secret), header, body), IsLerianWebhook(string(secret), header, body))
	}
}
`

const JAVA = `
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

final class Driver {
  public static void main(String[] names) throws Exception {
    for (String name : names) {
      String secret = Files.readString(Path.of(name, "secret"));
      Map<String, String> headers = new HashMap<>();
      for (String line : Files.readAllLines(Path.of(name, "headers"))) {
        String[] parts = line.split(": ", 2);
        headers.put(parts[0], parts[1]);
      }
      byte[] body = Files.readAllBytes(Path.of(name, "body"));
      boolean standard = Verify.isStandardWebhook(secret, headers::get, body);
      boolean lerian = Verify.isLerianWebhook(secret, headers::get, body);
      System.out.println(name + " " + standard + " " + lerian);
    }
  }
}
`
