import assert from 'node:assert/strict'
import { test } from 'node:test'
import { array, assert as check, boolean, constantFrom, property, record } from 'fast-check'
import { InFlight } from '../../../src/control/limits/in-flight.ts'

test('a tenant gets its share, and leaves room for the others', () => {
  const room = new InFlight({ total: 3, perTenant: 2 })
  const enter = (...tenants: string[]) => tenants.map((tenant) => room.enter(tenant))
  assert.deepEqual(enter('a', 'a', 'a', 'b', 'b'), ['in', 'in', 'tenant_full', 'in', 'full'])
  room.leave('a')
  assert.deepEqual(enter('b', 'a'), ['in', 'full'])
})

test('whoever comes and goes, there are never more inside than may be', () => {
  const step = record({ tenant: constantFrom('a', 'b', 'c'), comes: boolean() })
  check(
    property(array(step, { maxLength: 60 }), (steps) => {
      const room = new InFlight({ total: 5, perTenant: 2 })
      const inside: Record<string, number> = { a: 0, b: 0, c: 0 }
      for (const { tenant, comes } of steps) {
        const own = inside[tenant] ?? 0
        const all = Object.values(inside).reduce((sum, count) => sum + count)
        if (comes) {
          const answer = room.enter(tenant)
          assert.equal(answer, own >= 2 ? 'tenant_full' : all >= 5 ? 'full' : 'in')
          if (answer === 'in') inside[tenant] = own + 1
        } else if (own > 0) {
          room.leave(tenant)
          inside[tenant] = own - 1
        }
      }
    }),
  )
})
