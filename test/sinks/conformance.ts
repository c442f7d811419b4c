// What dispatch relies on in every kind of sink. A sink's own test calls this with the means to make destinations that behave
// as they are told; what is particular to its kind it tests beside it.
import { test, describe } from 'node:test'
import assert from 'node:assert/strict'
import type { AttemptRequest, Destination, Outcome, Sink } from '../../src/sinks/sink.ts'
import { anEvent, uuid7 } from '../support/fixtures.ts'

type Behaviour =
  | 'accepts'
  | 'fails' // it is there, and says no
  | 'hangs' // it is there, and says nothing
  | 'absent' // nothing is there
  | 'unusable' // its settings make no sense

export interface SinkUnderTest extends AsyncDisposable {
  sink: Sink
  destination(behaviour: Behaviour): Destination
  /** The bodies that the accepting destination has taken, in order. */
  taken(): Buffer[]
}

export function conformance(kind: string, create: () => Promise<SinkUnderTest>): void {
  describe(`${kind}, as any sink`, () => {
    test('makes exactly one delivery of an event, byte for byte', async () => {
      await using under = await create()
      const outcome = await deliver(under, 'accepts')
      assert.equal(outcome.kind, 'delivered')
      assert.deepEqual(under.taken(), [anEvent().data])
    })

    for (const behaviour of ['fails', 'absent', 'unusable'] as const) {
      test(`says how it failed where the destination ${says[behaviour]}, and does not throw`, async () => {
        await using under = await create()
        const outcome = await deliver(under, behaviour)
        assertFailed(outcome)
        assert.ok(!['internal', 'timeout', 'aborted'].includes(outcome.errorClass), outcome.errorClass)
        assert.match(outcome.detail, /^[A-Z].*\.$/, 'a readable sentence')
        assert.ok(outcome.response.length <= 4096)
      })
    }

    test('gives up within the time-out where the destination says nothing', async () => {
      await using under = await create()
      const outcome = await deliver(under, 'hangs', { timeoutMs: 50 })
      assertFailed(outcome)
      assert.equal(outcome.errorClass, 'timeout')
    })

    test('ends early when its signal aborts', async () => {
      await using under = await create()
      const abort = new AbortController()
      const outcome = deliver(under, 'hangs', { signal: abort.signal })
      abort.abort()
      assert.equal((await outcome).kind, 'failed')
      assertFailed(await outcome, 'aborted')
    })

    test('sends nothing when its signal has aborted before', async () => {
      await using under = await create()
      assertFailed(await deliver(under, 'accepts', { signal: AbortSignal.abort() }), 'aborted')
      assert.deepEqual(under.taken(), [])
    })

    test('probes without delivering an event, and does not throw either', async () => {
      await using under = await create()
      for (const behaviour of ['fails', 'absent', 'unusable'] as const) {
        assertFailed(await probe(under, behaviour))
      }
      assert.deepEqual(under.taken(), [])
    })

    test('may be closed twice, and says so when it is used after that', async () => {
      await using under = await create()
      await under.sink.close()
      await under.sink.close()
      assertFailed(await deliver(under, 'accepts'), 'internal')
      assertFailed(await probe(under, 'accepts'), 'internal')
    })
  })
}

const says = { fails: 'says no', absent: 'is not there', unusable: 'has unusable settings' }

function deliver(
  under: SinkUnderTest,
  behaviour: Behaviour,
  { signal = new AbortController().signal, timeoutMs = 10_000 }: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<Outcome> {
  const destination = { ...under.destination(behaviour), timeoutMs }
  const attempt: AttemptRequest = { destination, event: anEvent(), attemptId: uuid7(), number: 1, now: Date.now() }
  return under.sink.deliver(attempt, signal)
}

function probe(under: SinkUnderTest, behaviour: Behaviour): Promise<Outcome> {
  const request = { destination: under.destination(behaviour), attemptId: uuid7(), now: Date.now() }
  return under.sink.probe(request, new AbortController().signal)
}

function assertFailed(outcome: Outcome, errorClass?: string): asserts outcome is Outcome & { kind: 'failed' } {
  assert.equal(outcome.kind, 'failed')
  if (errorClass !== undefined) assert.equal((outcome as { errorClass: string }).errorClass, errorClass)
}
