import assert from 'node:assert/strict'
import { test } from 'node:test'
import { subscriptionOf } from '../../src/stream/discovery.ts'
import type { ClusterView, TopicView } from '../../src/stream/metadata.ts'

const acceptAll = (): boolean => true

test('accepted topics are subscribed to, by name', () => {
  const view = viewOf(topic('b'), topic('a'), topic('other'))
  assert.deepEqual(namesOf(subscriptionOf(view, [], (name) => name !== 'other')), ['a', 'b'])
})

test('a topic whose partitions cannot be told at the moment stays as it was known', () => {
  const sick = { ...topic('a'), leaders: [], problem: 'LEADER_NOT_AVAILABLE' }
  assert.deepEqual(subscriptionOf(viewOf(sick), [topic('a', 3)], acceptAll), [topic('a', 3)])
})

test('a topic of which nothing is known but an error is not subscribed to', () => {
  const sick = { ...topic('a'), leaders: [], problem: 'INVALID_TOPIC_EXCEPTION' }
  assert.deepEqual(subscriptionOf(viewOf(sick), [], acceptAll), [])
})

test('a topic that is gone is given up, and one without leaders is not', () => {
  const leaderless = { ...topic('a'), leaders: [null, null] }
  assert.deepEqual(namesOf(subscriptionOf(viewOf(leaderless), [topic('a'), topic('gone')], acceptAll)), ['a'])
})

function topic(name: string, partitions = 2): TopicView {
  return { name, id: `id of ${name}`, leaders: Array.from({ length: partitions }, () => 1), problem: null }
}

function viewOf(...topics: TopicView[]): ClusterView {
  return { brokers: new Map(), topics: new Map(topics.map((each) => [each.name, each])) }
}

function namesOf(topics: TopicView[]): string[] {
  return topics.map(({ name }) => name)
}
