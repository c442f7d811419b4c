// What tests of a running hub ask of its API: an active subscription, and an event taken in.
import assert from 'node:assert/strict'
import { uuid7 } from './fixtures.ts'

/** Makes a subscription of `tenant` to everything; resolves with its id when it is verified: only then it counts. */
export async function subscribe(hub: string, tenant: string, url: string): Promise<string> {
  const body = { name: 'all', event_types: ['*'], sink: { kind: 'webhook', url } }
  const { id } = await post(`${hub}/v1/subscriptions`, { 'x-tenant-id': tenant }, JSON.stringify(body))
  for (let state: unknown = ''; state !== 'active';) {
    const answer = await fetch(`${hub}/v1/subscriptions/${String(id)}`, { headers: { 'x-tenant-id': tenant } })
    state = ((await answer.json()) as Record<string, unknown>)['verification_state']
  }
  return String(id)
}

/** Has a `loan.approved` of `tenant` taken in. */
export async function sendEvent(
  hub: string,
  tenant: string,
  { body = '{}', ...headers }: { body?: string; traceparent?: string } = {},
): Promise<void> {
  const attributes = {
    specversion: '1.0',
    id: uuid7(),
    time: '2026-01-01T00:00:00Z',
    source: 'lender',
    type: 'studio.lerian.lender.loan.approved',
    resourcetype: 'loan',
    eventtype: 'approved',
    schemaversion: '1.0.0',
    tenantid: tenant,
  }
  const asHeaders = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value]))
  await post(`${hub}/v1/ingest`, { 'x-tenant-id': tenant, ...headers, ...asHeaders }, body)
}

async function post(url: string, headers: Record<string, string>, body: string): Promise<Record<string, unknown>> {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
  assert.ok(answer.ok, await answer.clone().text())
  return (await answer.json()) as Record<string, unknown>
}
