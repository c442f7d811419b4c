import assert from 'node:assert/strict'
import test from 'node:test'
import * as fc from 'fast-check'
import { Check } from 'typebox/value'
import { EventPattern } from '../../src/control/schemas/common.ts'
import { isEventTypePattern, match } from '../../src/matching/match.ts'
import type { MatchableEvent, MatchableSubscription, MismatchReason } from '../../src/matching/match.ts'

const event: MatchableEvent = {
  tenantId: 'acme',
  source: 'lender',
  key: 'loan_application.approved',
  resourceType: 'loan_application',
  schemaMajor: 1,
}

const subscription: MatchableSubscription = {
  tenantId: 'acme',
  origin: 'lender',
  eventTypes: ['loan_application.approved'],
  schemaMajor: 1,
  enabled: true,
  verificationState: 'active',
}

function reasons(changed: Partial<MatchableSubscription>): MismatchReason[] {
  const result = match(event, { ...subscription, ...changed })
  return result.matched ? [] : result.reasons
}

test('a subscription for exactly this event matches', () => {
  assert.deepEqual(match(event, subscription), { matched: true })
})

test('each condition that is not met is a reason of its own', () => {
  assert.deepEqual(reasons({ tenantId: 'Acme' }), ['tenant'])
  assert.deepEqual(reasons({ enabled: false }), ['disabled'])
  assert.deepEqual(reasons({ verificationState: 'pending' }), ['unverified'])
  assert.deepEqual(reasons({ verificationState: 'failed' }), ['unverified'])
  assert.deepEqual(reasons({ origin: 'matcher' }), ['origin'])
  assert.deepEqual(reasons({ eventTypes: ['loan_application.rejected'] }), ['event_type'])
  assert.deepEqual(reasons({ schemaMajor: 2 }), ['schema_major'])
})

test('all reasons are told, not the first alone', () => {
  const nothing: Partial<MatchableSubscription> = { tenantId: 'globex', enabled: false, verificationState: 'failed' }
  const all = ['tenant', 'disabled', 'unverified', 'origin', 'event_type', 'schema_major']
  assert.deepEqual(reasons({ ...nothing, origin: 'matcher', eventTypes: [], schemaMajor: 0 }), all)
})

test('without an origin or a schema major any will do, and a major of 0 is not any', () => {
  assert.deepEqual(reasons({ origin: null, schemaMajor: null }), [])
  assert.deepEqual(match({ ...event, schemaMajor: 0 }, { ...subscription, schemaMajor: 0 }), { matched: true })
  assert.deepEqual(reasons({ schemaMajor: 0 }), ['schema_major'])
})

test('one pattern of several is enough: the key, all of its resource, or all', () => {
  for (const pattern of ['loan_application.approved', 'loan_application.*', '*']) {
    assert.deepEqual(reasons({ eventTypes: ['account.created', pattern] }), [], pattern)
  }
})

test('a pattern means what it says and no more: no prefix, no other letter case, no other wildcard', () => {
  const others = [
    'loan.*',
    'loan_application',
    'Loan_Application.approved',
    '*.approved',
    '*.*',
    'loan_application.',
    'lender.*',
    '',
  ]
  for (const pattern of others) assert.deepEqual(reasons({ eventTypes: [pattern] }), ['event_type'], pattern)
})

test('an underscore is an underscore, not a wildcard', () => {
  assert.deepEqual(reasons({ eventTypes: ['loan-application.approved', 'loanxapplication.*'] }), ['event_type'])
})

test('a match is exactly the absence of reasons, whatever the event and the subscription', () => {
  const tenant = fc.constantFrom('acme', 'globex')
  const source = fc.constantFrom('lender', 'ledger')
  const resource = fc.constantFrom('a', 'b')
  const name = fc.constantFrom('x', 'y')
  const major = fc.nat(2)
  const events = fc.record({ tenantId: tenant, source, resource, name, schemaMajor: major })
  const pattern = fc.oneof(
    fc.constant('*'),
    fc.tuple(resource, fc.oneof(fc.constant('*'), name)).map((parts) => parts.join('.')),
  )
  const subscriptions = fc.record({
    tenantId: tenant,
    origin: fc.option(source),
    eventTypes: fc.array(pattern, { maxLength: 3 }),
    schemaMajor: fc.option(major),
    enabled: fc.boolean(),
    verificationState: fc.constantFrom('active', 'active', 'pending', 'failed'),
  })
  fc.assert(
    fc.property(events, subscriptions, ({ resource: resourceType, name: eventType, ...rest }, wish) => {
      const happened = { ...rest, resourceType, key: `${resourceType}.${eventType}` }
      const wanted = wish.eventTypes.some((text) => {
        const [first, second] = text.split('.')
        return first === '*' || (first === resourceType && (second === '*' || second === eventType))
      })
      const expected =
        wish.tenantId === rest.tenantId &&
        wish.enabled &&
        wish.verificationState === 'active' &&
        (wish.origin ?? rest.source) === rest.source &&
        (wish.schemaMajor ?? rest.schemaMajor) === rest.schemaMajor &&
        wanted
      assert.equal(match(happened, wish).matched, expected)
    }),
    { numRuns: 5_000 },
  )
})

test('a pattern is a key, a resource with a star, or a star', () => {
  const longest = 'a'.repeat(128)
  for (const text of ['*', 'loan_application.approved', 'loan_application.*', 'A-1.b_2', `${longest}.${longest}`]) {
    assert.ok(isEventTypePattern(text), text)
  }
  const wrong = [
    '',
    'loan',
    '*.*',
    '*.approved',
    'a.b.c',
    'a.',
    '.b',
    'a.b*',
    'a b.c',
    'préstamo.x',
    `${longest}a.b`,
    `a.${longest}a`,
    'a.*\n',
    '**',
  ]
  for (const text of wrong) assert.ok(!isEventTypePattern(text), JSON.stringify(text))
})

test("the API's schema asks for the same patterns", () => {
  const pieces = fc.constantFrom('*', '.', 'a', 'Z9', '_', '-', ' ', 'é', '\n', 'x'.repeat(127))
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 5 }), (parts) => {
      const text = parts.join('')
      assert.equal(isEventTypePattern(text), Check(EventPattern, text), JSON.stringify(text))
    }),
    { numRuns: 10_000 },
  )
})
