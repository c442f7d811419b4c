// What is taken of a producer's manifest, and what is left out.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readManifest } from '../../src/upkeep/manifest.ts'

const read = (manifest: unknown): ReturnType<typeof readManifest> => readManifest(Buffer.from(JSON.stringify(manifest)))

test('types are taken with what is said of them; members that are not known are passed over', () => {
  const entry = {
    event_type: 'loan.approved',
    title: 'Approved',
    description: 'A\n\tb',
    data_schema: 'https://a/s',
    x: 1,
  }
  assert.deepEqual(read({ source: 'lender', version: 2, event_types: [entry, { event_type: 'loan.closed' }] }), {
    types: [
      {
        source: 'lender',
        eventKey: 'loan.approved',
        title: 'Approved',
        description: 'A\n\tb',
        dataSchema: 'https://a/s',
      },
      { source: 'lender', eventKey: 'loan.closed', title: null, description: null, dataSchema: null },
    ],
    leftOut: [],
  })
})

test('an entry that is wrong is left out with its place, the others stay', () => {
  const wrong: [unknown, string][] = [
    [null, '/event_type'],
    ['loan.approved', '/event_type'],
    [{}, '/event_type'],
    [{ event_type: 'loan' }, '/event_type'],
    [{ event_type: 'loan.*' }, '/event_type'],
    [{ event_type: '*' }, '/event_type'],
    [{ event_type: 'a.b.c' }, '/event_type'],
    [{ event_type: `${'x'.repeat(129)}.b` }, '/event_type'],
    [{ event_type: 'a.b', title: '' }, '/title'],
    [{ event_type: 'a.b', title: 'x'.repeat(201) }, '/title'],
    [{ event_type: 'a.b', title: 'a\nb' }, '/title'],
    [{ event_type: 'a.b', title: '\u202egpj.exe' }, '/title'],
    [{ event_type: 'a.b', title: '\ud800' }, '/title'],
    [{ event_type: 'a.b', title: 7 }, '/title'],
    [{ event_type: 'a.b', description: ' ' }, '/description'],
    [{ event_type: 'a.b', description: 'a\u0000b' }, '/description'],
    [{ event_type: 'a.b', description: 'x'.repeat(4_001) }, '/description'],
    [{ event_type: 'a.b', data_schema: 'javascript:alert(1)' }, '/data_schema'],
    [{ event_type: 'a.b', data_schema: `https://a/${'x'.repeat(2_048)}` }, '/data_schema'],
    [{ event_type: 'good.one' }, ''],
  ]
  const types = [{ event_type: 'good.one' }, ...wrong.map(([entry]) => entry)]
  const manifest = read({ source: 'lender', event_types: types })
  assert.ok(typeof manifest !== 'string')
  assert.deepEqual(
    manifest.types.map(({ eventKey }) => eventKey),
    ['good.one'],
  )
  assert.deepEqual(
    manifest.leftOut.map(({ path }) => path),
    wrong.map(([, member], at) => `/event_types/${at + 1}${member}`),
  )
})

test('what is no manifest says why', () => {
  const types = Array.from({ length: 2_001 }, (_, at) => ({ event_type: `a.b${at}` }))
  for (const [bytes, why] of [
    ['', /is empty/],
    ['{', /is not JSON/],
    ['['.repeat(100), /nested deeper/],
    ['null', /\/source/],
    ['{"source":"Lender!","event_types":[]}', /\/source/],
    ['{"source":"lender"}', /\/event_types is not a list/],
    ['{"source":"lender","event_types":{}}', /\/event_types is not a list/],
    [JSON.stringify({ source: 'lender', event_types: types }), /more than 2000/],
  ] as const) {
    const problem = readManifest(Buffer.from(bytes))
    assert.ok(typeof problem === 'string')
    assert.match(problem, why)
  }
  assert.equal(readManifest(Buffer.from('"\xff"', 'latin1')), 'the manifest is not UTF-8')
})
