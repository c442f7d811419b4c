// What watches the hub asks for metrics and labels that a running hub has, in expressions that Prometheus can read; and what a hub serves
// names no tenant and no subscription.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { before, describe, it } from 'node:test'
import { parser } from '@prometheus-io/lezer-promql'
import { parse } from 'yaml'
import { VERSION } from '../../src/base/version.ts'
import { testDatabase } from '../support/database.ts'
import { sendEvent, subscribe } from '../support/hub-calls.ts'
import { startHub } from '../support/hub.ts'
import { startReceiver } from '../support/receiver.ts'

interface Rule {
  alert: string
  expr: string
  for?: string
  labels: Record<string, string>
  annotations: Record<string, string>
}
interface Dashboard {
  panels: { title: string; type: string; targets?: { expr: string }[] }[]
}

const read = async (path: string): Promise<string> => await readFile(new URL(`../../${path}`, import.meta.url), 'utf8')

const rules = (parse(await read('deploy/prometheus/alerts.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
  (group) => group.rules,
)
const dashboard = JSON.parse(await read('deploy/grafana/streaming-hub.json')) as Dashboard
const expressions = [
  ...rules.map(({ alert, expr }) => ({ of: alert, expr })),
  ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ of: title, expr }))),
].map(({ of, expr }) => ({ of, expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', '.*') }))

/** The metrics of an expression with the labels that it selects or groups by, and where Prometheus could not read it. */
function readingOf(expr: string): { metrics: string[]; labels: string[]; errors: number[] } {
  const found = { metrics: [] as string[], labels: [] as string[], errors: [] as number[] }
  parser.parse(expr).iterate({
    enter: ({ name, from, to, type }) => {
      if (type.isError) found.errors.push(from)
      if (name === 'VectorSelector') found.metrics.push(expr.slice(from, to).replace(/\{[^]*/, ''))
      if (name === 'LabelName') found.labels.push(expr.slice(from, to))
    },
  })
  return found
}

const TENANTS = ['tenant-of-the-north', 'tenant-of-the-south']

/** What a hub serves that has taken in and delivered, and failed to, for two tenants. */
async function servedBy(): Promise<{ text: string; subscriptions: string[] }> {
  await using database = await testDatabase()
  await using receiver = await startReceiver((response, { path, body }) => {
    const challenge = /"challenge":"([^"]+)"/.exec(body.toString())?.[1]
    response.statusCode = challenge || path.includes('north') ? 200 : 500
    response.end(challenge ?? 'x')
  })
  const hub = await startHub({
    STREAMING_HUB_POSTGRES_DSN: database.dsn,
    STREAMING_HUB_DEV_BROKER_PORT: '0',
    STREAMING_HUB_ALLOW_PRIVATE_SINKS: 'true',
  })
  try {
    const subscriptions: string[] = []
    for (const tenant of TENANTS) {
      subscriptions.push(await subscribe(hub.url, tenant, `${receiver.url}/${tenant}`))
      await sendEvent(hub.url, tenant)
    }
    for (;;) {
      const text = await (await fetch(`${hub.url}/metrics`)).text()
      if (done(text)) return { text, subscriptions }
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  } finally {
    await hub.kill()
  }
}

/** It has delivered, and it has failed to. */
function done(text: string): boolean {
  return ['delivered', 'failed'].every((outcome) => text.includes(`hub_attempts_total{outcome="${outcome}"`))
}

describe('what a hub serves at /metrics', () => {
  let text = ''
  let subscriptions: string[] = []
  before(async () => {
    const served = await servedBy()
    text = served.text
    subscriptions = served.subscriptions
  })

  it('has every metric that an alert or a panel names, with the labels that it asks for', () => {
    const names = [...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
    )
    const missing = expressions.flatMap(({ of, expr }) =>
      readingOf(expr)
        .metrics.filter((metric) => !names.includes(metric))
        .map((metric) => `${of}: ${metric}`),
    )
    assert.deepEqual(missing, [])
    const elsewhere = ['instance', 'job', 'group', 'topic', 'source', 'reason', 'standing']
    for (const label of new Set(expressions.flatMap(({ expr }) => readingOf(expr).labels)))
      assert.ok(elsewhere.includes(label) || text.includes(`${label}="`), label)
  })

  it('names no tenant and no subscription, neither as a label nor as a value', () => {
    assert.doesNotMatch(text, /[{,](tenant|subscription)\w*=/)
    for (const name of [...TENANTS, ...subscriptions]) assert.ok(!text.includes(name), name)
  })

  it('follows the conventions: units in the names, _total on counters alone, and something about each', () => {
    const own = [...text.matchAll(/^# HELP (hub_\S+) (.*)\n# TYPE \S+ (\S+)/gm)]
    assert.ok(own.length > 30)
    for (const [, name = '', help = '', type = ''] of own) {
      assert.equal(name.endsWith('_total'), type === 'counter', name)
      assert.doesNotMatch(name, /_(ms|milliseconds|minutes|kb)\b/, name)
      if (type === 'histogram') assert.match(name, /_(seconds|records|outcomes|bytes)$/, name)
      assert.ok(help.length > 8, name)
    }
  })

  it('says what runs, and how its connections are used', () => {
    assert.ok(text.includes(`hub_build_info{version="${VERSION}",role="all"} 1`))
    for (const pool of ['control', 'ingest', 'dispatch'])
      assert.match(text, new RegExp(`hub_database_connections_max\\{pool="${pool}"\\} [1-9]`))
  })
})

describe('the alerts and the panels', () => {
  it('can be read by Prometheus', () => {
    const faults = expressions.filter(({ expr }) => readingOf(expr).errors.length > 0)
    assert.deepEqual(faults, [])
    assert.ok(expressions.length > 60)
    assert.ok(readingOf('sum(rate(x[5m])').errors.length > 0, 'a fault is found')
  })

  it('never ask for a tenant', () => {
    for (const { of, expr } of expressions)
      assert.doesNotMatch(readingOf(expr).labels.join(), /tenant|subscription/, of)
  })

  it('say how urgent they are and what is wrong, and each has its section in the runbook', async () => {
    const sections = [...(await read('docs/operations.md')).matchAll(/^### (Hub\w+)$/gm)].map(([, name]) => name)
    assert.deepEqual(
      sections,
      rules.map(({ alert }) => alert),
    )
    for (const { alert, labels, annotations } of rules) {
      assert.match(labels['severity'] ?? '', /^(page|ticket)$/, alert)
      assert.ok(annotations['summary'], alert)
    }
  })
})
