// A short run on every change; `npm run properties` makes longer ones.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testDatabase } from '../support/database.ts'
import { startHub } from '../support/hub.ts'
import { Judge, type Answer, type Document } from './answers.ts'
import { reportOf } from './report.ts'
import type { Operation, Tenant, Wish } from './requests.ts'
import { PROPERTY_HUB, runProperties } from './run.ts'

const REQUESTS = 2_000

const succeeds = (counts: Map<number, number>): boolean => [...counts.keys()].some((status) => status < 300)

test('whatever is asked of a hub that runs, it answers as its document says, and never of another tenant', async (t) => {
  await using database = await testDatabase()
  const hub = await startHub({ ...PROPERTY_HUB, STREAMING_HUB_POSTGRES_DSN: database.dsn })
  t.after(() => hub.stop())
  const report = await runProperties(hub, { requests: REQUESTS, seed: 20_261_205 })
  assert.equal(report.complaints.length, 0, reportOf(report))
  const never = [...report.answers].filter(([, counts]) => !succeeds(counts)).map(([operation]) => operation)
  assert.deepEqual(never, [], 'no request of these operations came through: the run says nothing of them')
  t.diagnostic(`${REQUESTS} requests of ${report.answers.size} operations`)
})

const answer = (status: number, value: unknown, given: Partial<Answer['headers']> = {}): Answer => ({
  status,
  headers: {
    'x-request-id': '1',
    'content-type': status < 400 ? 'application/json' : 'application/problem+json',
    ...given,
  },
  bytes: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
})

describe('an answer that is not as it should be is complained of:', () => {
  const schema = { type: 'object', required: ['id'], properties: { id: { type: 'string' } } }
  const responses = {
    200: { description: 'fine', content: { 'application/json': { schema } } },
    204: { description: 'done' },
    404: { description: 'not_found: none', content: { 'application/problem+json': { schema: {} } } },
    409: { description: 'nothing', content: { 'application/problem+json': { schema: {} } } },
  }
  const document: Document = { paths: { '/v1/things': { get: { responses } } }, components: { schemas: {} } }
  const operation: Operation = { method: 'GET', path: '/v1/things', operationId: 'x', parameters: [], body: null }
  const wishOf = (tenant: Tenant): Wish => ({
    operation,
    tenant,
    named: { of: 'own', pick: 0 },
    query: [],
    headers: {},
    body: null,
  })
  const complaints = (given: Answer): string[] => new Judge(document).complaints(wishOf('a'), '', given)

  for (const [what, given, expected] of [
    ['a failure of the hub', answer(500, {}), /the hub failed/],
    ['a status that is not documented', answer(418, ''), /418 is not documented/],
    ['a body that does not fit', answer(200, { id: 1 }), /does not fit/],
    ['a body that is no JSON', answer(200, '{'), /not JSON/],
    ['no body where there is to be one', answer(200, ''), /no body/],
    ['another content type', answer(200, { id: '1' }, { 'content-type': 'text/html' }), /text\/html is not documented/],
    ['no request id', answer(200, { id: '1' }, { 'x-request-id': undefined }), /x-request-id/],
    ['a code of another status', answer(404, { code: 'conflict', status: 404 }), /not those of a 404/],
    ['a code that is not documented', answer(409, { code: 'conflict', status: 409 }), /conflict is not documented/],
  ] as const)
    test(what, () => assert.match(complaints(given).join('\n'), expected))

  test('and one that is, is not', () => {
    assert.deepEqual(complaints(answer(200, { id: '1' })), [])
    assert.deepEqual(complaints(answer(204, '')), [])
    assert.deepEqual(complaints(answer(404, { code: 'not_found', status: 404 })), [])
  })

  test('an id that the other tenant was told, unless the request has brought it', () => {
    const judge = new Judge(document)
    const id = '01981f3e-7c1a-7d3b-9d0e-2f6a4b8c9d10'
    const told = (tenant: Tenant, sent = ''): string[] => judge.complaints(wishOf(tenant), sent, answer(200, { id }))
    assert.deepEqual(told('a'), [])
    assert.deepEqual(told('a'), [])
    assert.match(told('b').join(), /is the other tenant's/)
    assert.deepEqual(told('b', `/v1/things?x=${id}`), [])
  })
})
