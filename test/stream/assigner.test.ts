import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { assign, type GroupMember, type TopicPartitions } from '../../src/stream/assigner.ts'

const topicNames: fc.Arbitrary<string> = fc.constantFrom('a', 'b', 'c', 'd')
const members = fc.uniqueArray(
  fc.record({ id: fc.stringMatching(/^[a-z]{1,4}$/), topics: fc.uniqueArray(topicNames) }),
  {
    selector: ({ id }) => id,
    maxLength: 6,
  },
)
const counts = fc.dictionary(topicNames, fc.nat({ max: 20 })).map((record) => new Map(Object.entries(record)))

test('two members share a topic evenly', () => {
  const shares = assign([member('m1', 'a'), member('m2', 'a')], new Map([['a', 3]]))
  assert.deepEqual(shares.get('m1'), [{ topic: 'a', partitions: [0, 2] }])
  assert.deepEqual(shares.get('m2'), [{ topic: 'a', partitions: [1] }])
})

test('a member gets nothing of a topic that it has not discovered yet', () => {
  const shares = assign(
    [member('m1', 'a', 'new'), member('m2', 'a')],
    new Map([
      ['a', 2],
      ['new', 2],
    ]),
  )
  assert.deepEqual(placesOf(shares.get('m1')), ['a:0', 'new:0', 'new:1'])
  assert.deepEqual(placesOf(shares.get('m2')), ['a:1'])
})

test('every partition that someone subscribed to has exactly one owner, who subscribed to it', () => {
  fc.assert(
    fc.property(members, counts, (group, partitionCounts) => {
      const shares = assign(group, partitionCounts)
      const owned = [...shares.values()].flatMap(placesOf).sort()
      const wanted = [...partitionCounts]
        .filter(([topic]) => group.some(({ topics }) => topics.includes(topic)))
        .flatMap(([topic, count]) => Array.from({ length: count }, (_, partition) => `${topic}:${partition}`))
        .sort()
      assert.deepEqual(owned, wanted)
      for (const { id, topics } of group) {
        for (const { topic } of shares.get(id) ?? []) assert.ok(topics.includes(topic))
      }
    }),
  )
})

test('members with the same topics have shares that differ by at most one partition', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), counts, (size, partitionCounts) => {
      const group = Array.from({ length: size }, (_, index) => member(`m${index}`, ...partitionCounts.keys()))
      const sizes = [...assign(group, partitionCounts).values()].map((share) => placesOf(share).length)
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1)
    }),
  )
})

test('the order in which members and topics are named changes nothing', () => {
  fc.assert(
    fc.property(members, counts, (group, partitionCounts) => {
      const turned = assign([...group].reverse(), new Map([...partitionCounts].reverse()))
      assert.deepEqual(turned, assign(group, partitionCounts))
    }),
  )
})

function member(id: string, ...topics: string[]): GroupMember {
  return { id, topics }
}

function placesOf(share: TopicPartitions[] = []): string[] {
  return share.flatMap(({ topic, partitions }) => partitions.map((partition) => `${topic}:${partition}`))
}
