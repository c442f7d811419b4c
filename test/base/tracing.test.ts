import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** What a Node process that runs `script` writes, with these variables beside PATH. */
async function outputOf(script: string, env: Record<string, string> = {}): Promise<string> {
  const args = ['--input-type=module', '--eval', script]
  const cwd = new URL('../..', import.meta.url).pathname
  return (await run(process.execPath, args, { cwd, env: { PATH: process.env['PATH'], ...env } })).stdout
}

const NAME_WHAT_IS_LOADED = `
  import { registerHooks } from 'node:module'
  registerHooks({ resolve: (name, context, next) => {
    if (/^@opentelemetry.(?!api$)/.test(name)) console.log(name)
    return next(name, context)
  } })
  await import('./src/main.ts')
`

const EXPORT_ONE = `
  const { openTracer } = await import('./src/base/tracing.ts')
  const { createLog } = await import('./src/base/log.ts')
  const tracer = await openTracer({ sampler: 'always_on', ratio: 1, serviceVersion: '1', log: createLog('info') })
  const at = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', parentId: null, sampled: false }
  tracer.record({ name: 'a span', kind: 'client', at, spanId: '00f067aa0ba902b7', startedAt: 1, endedAt: 2, attributes: {}, errorType: null })
  await tracer.close()
`

describe('traces', () => {
  it('that nobody collects cost nothing: no part of the SDK is loaded with the program', async () => {
    assert.equal(await outputOf(NAME_WHAT_IS_LOADED), '')
  })

  it('go to where the standard variables say, with their headers and under their name', async () => {
    const received = Promise.withResolvers<{ url: string | undefined; key: unknown; body: Buffer }>()
    const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      received.resolve({ url: request.url, key: request.headers['x-key'], body: await buffer(request) })
      response.end()
    }
    const server = createServer((request, response) => void take(request, response)).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    await outputOf(EXPORT_ONE, {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=of-the-collector',
      OTEL_SERVICE_NAME: 'hub-of-the-east',
    })
    server.close()
    const { url, key, body } = await received.promise
    assert.equal(url, '/v1/traces')
    assert.equal(key, 'of-the-collector')
    for (const told of ['a span', 'hub-of-the-east']) assert.ok(body.includes(told), told)
  })

  it('for a collector that is away are lost, which is said, and the program ends all the same', async () => {
    const said = await outputOf(EXPORT_ONE, {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
    })
    assert.equal(said.trim().split('\n').length, 1)
    assert.match(said, /"level":"warn".*traces cannot be handed over/)
  })
})
