import assert from 'node:assert/strict'
import test from 'node:test'
import { isTraceparent, isTracestate } from '../../src/event/trace-context.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

test('a traceparent has four fields of lower-case hexadecimal digits', () => {
  for (const text of [`00-${TRACE}-${SPAN}-01`, `00-${TRACE}-${SPAN}-00`, `cc-${TRACE}-${SPAN}-ff`])
    assert.ok(isTraceparent(text), text)
})

test('a traceparent with zero ids, the forbidden version, or anything more or less is none', () => {
  const broken = [
    '',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-x`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-01,00-${TRACE}-${SPAN}-01`,
    ` 00-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01\n`,
  ]
  for (const text of broken) assert.ok(!isTraceparent(text), JSON.stringify(text))
})

test('a tracestate is a list of members, some of which may be empty', () => {
  for (const text of ['rojo=00f067aa0ba902b7', 'congo=t61rcWkgMzE,rojo=1', 'fw529a3039@dt=FfAB , ,0key=x y']) {
    assert.ok(isTracestate(text), text)
  }
})

test('a tracestate with a broken member, none, or too much of anything is none', () => {
  const members = Array.from({ length: 33 }, (_, at) => `k${at}=v`)
  const broken = [
    '',
    ' , ',
    'rojo',
    'Rojo=1',
    'rojo=',
    'rojo=a=b',
    'rojo=é',
    'rojo=\u0000',
    members.join(','),
    `rojo=${'x'.repeat(508)}`,
  ]
  for (const text of broken) assert.ok(!isTracestate(text), JSON.stringify(text))
  assert.ok(isTracestate(members.slice(0, 32).join(',')))
})

test('a tracestate has at most 512 characters', () => {
  const longest = `a=${'x'.repeat(255)},b=${'x'.repeat(252)}`
  assert.equal(longest.length, 512)
  assert.ok(isTracestate(longest))
  assert.ok(!isTracestate(`${longest}x`))
})
