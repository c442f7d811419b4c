// Room for opened batches: never more than the budget and one batch, in the order of coming, and nobody is forgotten.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { Room } from '../../src/stream/room.ts'

const staying = new AbortController().signal

test('who finds no room waits, and comes in in the order of coming', async () => {
  const room = new Room(10)
  const came: string[] = []
  const come = async (name: string, bytes: number): Promise<void> => {
    await room.enter(staying)
    came.push(name)
    room.take(bytes)
  }
  await come('a', 12)
  const [b, c] = [come('b', 10), come('c', 1)]
  await Promise.resolve()
  assert.deepEqual(came, ['a'])
  assert.equal(room.isOpen, false)
  room.give(12)
  await b
  assert.deepEqual(came, ['a', 'b'])
  room.give(10)
  await c
  assert.deepEqual(came, ['a', 'b', 'c'])
})

test('who no longer wants in is let go of, and does not hold up those behind', async () => {
  const room = new Room(1)
  await room.enter(staying)
  room.take(1)
  const leaving = new AbortController()
  const left = room.enter(leaving.signal)
  const behind = room.enter(staying)
  leaving.abort()
  await assert.rejects(left, /no longer wanted/)
  room.give(1)
  await behind
})

test('whoever comes and goes in whatever order, no more is held than the budget and one batch, and all get in', async () => {
  const guests = fc.array(fc.record({ bytes: fc.integer({ min: 0, max: 30 }), stays: fc.nat({ max: 60 }) }))
  await fc.assert(
    fc.asyncProperty(guests, async (coming) => {
      const room = new Room(20)
      let most = 0
      await Promise.all(
        coming.map(async ({ bytes, stays }) => {
          await room.enter(staying)
          room.take(bytes)
          most = Math.max(most, room.held)
          for (let turns = 0; turns < stays; turns++) await Promise.resolve()
          room.give(bytes)
        }),
      )
      assert.ok(most < 20 + 30)
      assert.equal(room.held, 0)
      assert.equal(room.isOpen, true)
    }),
  )
})
