// What is in deploy/ speaks of the program as it is: its variables, their defaults, its files and its time-outs. The chart is rendered
// where a `helm` is to be had (CI installs none): then what comes out is held against the program's own configuration.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { glob, readFile } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { parse, parseAllDocuments } from 'yaml'
import { fullName, loadConfig, variables } from '../../src/config.ts'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url)
const read = async (path: string): Promise<string> => await readFile(new URL(path, root), 'utf8')
const CHART = 'deploy/helm/streaming-hub'

interface Values {
  config: Record<string, string>
  platform: Record<string, string>
  secretRefs: Record<string, { name: string; key: string }>
}
const values = parse(await read(`${CHART}/values.yaml`), { merge: true }) as Values
const table = new Map(
  Object.entries(variables).map(([name, { default: fallback, ...rest }]) => [
    name,
    { fallback: fallback ?? '', secret: 'secret' in rest },
  ]),
)
/** Of local mode alone, or what the chart sets by itself. */
const NOT_IN_VALUES = ['ENV', 'ROLE', 'DATA_DIR', 'DEV_BROKER_PORT', 'DEV_KEK']
/** Where the chart's default is not the hub's, and why: nobody is local, and the key's variable has a name. */
const OTHER_DEFAULTS: Record<string, string> = { HTTP_LISTEN_ADDR: ':8080', KEK_REF: 'STREAMING_HUB_KEK' }

describe('deploy/', () => {
  it('names no variable that the hub does not have', async () => {
    const known = new Set([...table.keys()].map(fullName))
    const others = ['STREAMING_HUB_KEK', 'STREAMING_HUB_', 'OTEL_SERVICE_NAME', 'OTEL_RESOURCE_ATTRIBUTES']
    const files = await Array.fromAsync(glob('deploy/**/{*.*,Dockerfile}', { cwd: root.pathname }))
    assert.ok(files.length > 12)
    for (const file of files) {
      const named = (await read(file)).match(/\b(STREAMING_HUB|OTEL|PLUGIN_AUTH)_[A-Z_]*/g) ?? []
      const unknown = named.filter(
        (name) => !known.has(name) && !others.includes(name) && !name.startsWith('OTEL_EXPORTER_OTLP_'),
      )
      assert.deepEqual(unknown, [], file)
    }
  })

  it('is YAML that can be read, each file with a word on what it is for', async () => {
    for await (const file of glob('deploy/**/*.{yaml,yml}', { cwd: root.pathname })) {
      if (file.includes('/templates/')) continue
      const text = await read(file)
      for (const document of parseAllDocuments(text)) assert.deepEqual(document.errors, [], file)
      if (!file.endsWith('Chart.yaml')) assert.match(text, /^# .{20}/, file)
    }
  })
})

describe('the values of the chart', () => {
  it('have every variable of the hub, secrets by reference alone, and its defaults', () => {
    const given = { ...values.config, ...values.platform }
    for (const [name, { fallback, secret }] of table) {
      if (NOT_IN_VALUES.includes(name)) continue
      assert.equal(
        name in given,
        !secret,
        `${name}, ${secret ? 'a secret' : 'a plain value'}: see values.yaml and its schema`,
      )
      assert.equal(name in values.secretRefs, secret, name)
      if (!secret) assert.equal(given[name], OTHER_DEFAULTS[name] ?? fallback, name)
    }
    for (const name of Object.keys(values.platform)) assert.equal(fullName(name), name)
    for (const name of Object.keys(given)) assert.ok(table.has(name), `${name} is none`)
    assert.deepEqual(
      Object.keys(values.secretRefs).filter((name) => name !== 'KEK' && !table.get(name)?.secret),
      [],
    )
  })

  it('are those that their schema knows', async () => {
    const schema = JSON.parse(await read(`${CHART}/values.schema.json`)) as {
      properties: Record<string, { properties?: Record<string, unknown> }>
    }
    for (const [name, value] of Object.entries(values)) {
      assert.ok(schema.properties[name], name)
      const known = schema.properties[name].properties
      if (known)
        assert.deepEqual(
          Object.keys(value as object).filter((key) => !(key in known)),
          [],
          name,
        )
    }
  })
})

async function services(): Promise<Record<string, Record<string, unknown>>> {
  return (parse(await read('deploy/compose.yaml')) as { services: Record<string, Record<string, unknown>> }).services
}

describe('the compose file', () => {
  it('starts the hub with a configuration that it takes, with nothing to write to and no rights', async () => {
    const { hub } = await services()
    const environment = hub?.['environment'] as Record<string, string>
    const config = loadConfig({ ...environment, OTEL_EXPORTER_OTLP_ENDPOINT: '' })
    assert.equal(config.http.host, '0.0.0.0')
    assert.ok(config.postgres.dsn?.includes('@postgres:5432/'))
    assert.deepEqual(config.kafka.brokers, ['kafka:9092'])
    assert.deepEqual([hub?.['read_only'], hub?.['cap_drop']], [true, ['ALL']])
    const graceMs = Number.parseInt(String(hub?.['stop_grace_period'])) * 1000
    assert.ok(graceMs > config.shutdown.timeoutMs + config.shutdown.preStopDrainMs)
  })

  it('publishes ports on loopback alone, and mounts files that are there', async () => {
    for (const [name, { ports = [], volumes = [] }] of Object.entries(await services())) {
      for (const port of ports as string[]) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/, name)
      for (const volume of volumes as string[]) {
        const [source = ''] = volume.split(':')
        if (source.startsWith('./')) await read(`deploy/${source}`)
      }
    }
  })
})

describe('the image', () => {
  it('is made in two stages, of what the lock file says, and run by a user without rights', async () => {
    const text = await read('deploy/Dockerfile')
    const node = (JSON.parse(await read('package.json')) as { devDependencies: { node: string } }).devDependencies.node
    assert.deepEqual(
      [...text.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image),
      Array(2).fill(`node:${node}-trixie-slim`),
    )
    assert.match(text, /npm ci --omit=dev --omit=optional --ignore-scripts/)
    assert.match(text, /^USER 1000:1000$/m)
    const kept = (await read('.dockerignore')).split('\n').filter((line) => line.startsWith('!'))
    for (const [, source = ''] of text.matchAll(/^COPY (?!--from)(\S+)/gm))
      assert.ok(kept.includes(`!${source}`), source)
  })
})

interface Container {
  args: string[]
  env: { name: string; value?: string; valueFrom?: unknown }[]
  securityContext: Record<string, unknown>
}
interface Manifest {
  kind: string
  metadata: { name: string }
  spec?: {
    template?: { spec: { containers: Container[]; terminationGracePeriodSeconds: number } }
    maxReplicas?: number
  }
}

const helm = process.env['HELM'] ?? 'helm'
const hasHelm = await run(helm, ['version']).then(
  () => true,
  () => false,
)
/** What production needs beside the chart's defaults. */
const NEEDED = {
  'config.KAFKA_BROKERS': 'kafka:9093',
  'config.KAFKA_TLS_ENABLED': 'true',
  'config.AUTH_JWKS_URL': 'https://id.example/jwks',
  'config.AUTH_ISSUER': 'id',
  'config.AUTH_AUDIENCE': 'hub',
}

async function render(set: Record<string, string> = {}): Promise<Manifest[]> {
  const args = Object.entries({ ...NEEDED, ...set }).flatMap(([name, value]) => ['--set', `${name}=${value}`])
  const { stdout } = await run(helm, ['template', 'hub', new URL(CHART, root).pathname, ...args])
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest)
}

function podsOf(manifests: Manifest[], kind: string): { container: Container; graceSeconds: number }[] {
  return manifests.flatMap((manifest) => {
    const pod = manifest.spec?.template?.spec
    const [container] = pod?.containers ?? []
    if (manifest.kind !== kind || !pod || !container) return []
    return [{ container, graceSeconds: pod.terminationGracePeriodSeconds }]
  })
}

/** The configuration that a container's environment makes, with secrets as somebody would have put them. */
function configOf({ env }: Container) {
  const secrets: Record<string, string> = {
    STREAMING_HUB_POSTGRES_DSN: 'postgres://hub@db/hub?sslmode=verify-full',
    STREAMING_HUB_KEK: Buffer.alloc(32, 1).toString('base64'),
  }
  return loadConfig(Object.fromEntries(env.map(({ name, value }) => [name, value ?? secrets[name]])))
}

describe('the chart', { skip: !hasHelm && 'needs helm: set HELM to where it is' }, () => {
  it('renders replicas of the role all that start with what they are given, and stop in time', async () => {
    const pods = podsOf(await render(), 'Deployment')
    assert.equal(pods.length, 1)
    for (const { container, graceSeconds } of pods) {
      const config = configOf(container)
      assert.deepEqual([config.env, config.role, config.postgres.maxConnections], ['production', 'all', 25])
      assert.ok(graceSeconds * 1000 > config.shutdown.timeoutMs + config.shutdown.preStopDrainMs)
      assert.equal(container.securityContext['readOnlyRootFilesystem'], true)
    }
    const longer = podsOf(await render({ 'config.SHUTDOWN_TIMEOUT': '1m30s' }), 'Deployment')
    assert.deepEqual(
      longer.map(({ graceSeconds }) => graceSeconds),
      [90 + 5 + 10],
    )
  })

  it('renders both roles in the mode split, each with its own number of connections', async () => {
    const manifests = await render({ mode: 'split' })
    const configs = podsOf(manifests, 'Deployment').map(({ container }) => configOf(container))
    assert.deepEqual(
      configs.map(({ role, postgres }) => [role, postgres.maxConnections]),
      [
        ['ingest', 8],
        ['delivery', 16],
      ],
    )
    const kinds = manifests.map(({ kind }) => kind)
    for (const kind of ['PodDisruptionBudget', 'NetworkPolicy', 'Service', 'ServiceAccount', 'Job'])
      assert.ok(kinds.includes(kind), kind)
  })

  it('migrates before the pods change', async () => {
    const [job] = podsOf(await render(), 'Job')
    assert.deepEqual(job?.container.args, ['migrate'])
    assert.ok(job && configOf(job.container).postgres.dsn)
  })

  it('refuses to render more connections than PostgreSQL allows, counting what autoscaling may add', async () => {
    await render({ 'roles.all.replicas': '6' })
    await assert.rejects(render({ 'roles.all.replicas': '7' }), /connection budget is exceeded: 201 connections/)
    const scaled = { 'roles.all.autoscaling.enabled': 'true', 'roles.all.autoscaling.maxReplicas': '7' }
    await assert.rejects(render(scaled), /connection budget is exceeded/)
    await render({ ...scaled, 'roles.all.maxOpenConns': '10' })
  })

  it('refuses values that it does not know', async () => {
    await assert.rejects(render({ mode: 'both' }), /mode/)
    await assert.rejects(render({ 'config.TYPO': '1' }), /TYPO/)
  })
})
