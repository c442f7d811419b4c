// A running hub and a reader that waits by HTTP: it has an event when the notice of it comes, and it is not kept waiting by a stop.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../support/database.ts'
import { sendEvent } from '../support/hub-calls.ts'
import { startHub } from '../support/hub.ts'

interface Page {
  items: { id: string; data: unknown }[]
  next_cursor: string
}

const variables = (dsn: string): Record<string, string> => ({
  STREAMING_HUB_POSTGRES_DSN: dsn,
  STREAMING_HUB_DEV_BROKER_PORT: '0',
})

async function pull(hub: string, query: string): Promise<Page> {
  const answer = await fetch(`${hub}/v1/events?${query}`, { headers: { 'x-tenant-id': 'reader' } })
  assert.equal(answer.status, 200, await answer.clone().text())
  return (await answer.json()) as Page
}

/** Until so many wait. */
async function waiters(hub: string, count: number): Promise<void> {
  const limit = AbortSignal.timeout(60_000)
  while (!(await (await fetch(`${hub}/metrics`)).text()).includes(`\nhub_pull_waiters ${count}\n`))
    limit.throwIfAborted()
}

test('a reader that waits at one replica has what another one takes in, and a stop or a hang-up lets it go', async () => {
  await using database = await testDatabase()
  const taking = await startHub(variables(database.dsn))
  const serving = await startHub(variables(database.dsn))
  try {
    const { next_cursor: start } = await pull(serving.url, 'from=latest')
    const polls = Array.from({ length: 3 }, () => pull(serving.url, `cursor=${start}&wait=30s`))
    await waiters(serving.url, 3)
    await sendEvent(taking.url, 'reader', { body: '{"amount":1.50}' })
    const pages = await Promise.all(polls)
    for (const page of pages) assert.deepEqual(page, pages[0])
    assert.deepEqual(
      pages[0]?.items.map(({ data }) => data),
      [{ amount: 1.5 }],
    )

    const leaving = new AbortController()
    const left = fetch(`${serving.url}/v1/events?cursor=${pages[0]?.next_cursor}&wait=30s`, {
      headers: { 'x-tenant-id': 'reader' },
      signal: leaving.signal,
    })
    await waiters(serving.url, 1)
    leaving.abort()
    await assert.rejects(left)
    await waiters(serving.url, 0)

    const last = pull(serving.url, `cursor=${pages[0]?.next_cursor}&wait=30s`)
    await waiters(serving.url, 1)
    const stopped = serving.stop()
    assert.deepEqual((await last).items, [])
    assert.equal(await stopped, 0)
  } finally {
    await Promise.all([taking.kill(), serving.kill()])
  }
})
