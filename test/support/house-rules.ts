// The house's style as functions over source text: each rule answers with what is wrong in one file, as `path:line: sentence`.
// They read the syntax tree, so a word in a comment or in a string is not taken for code.
import { dirname, join } from 'node:path/posix'
import { parseSync, Visitor, type Node } from 'oxc-parser'

export interface Source {
  /** From the project's root, with slashes. */
  path: string
  text: string
}

export type Rule = (source: Source) => string[]

const MAX_FUNCTION_LINES = 70

/** What each place may import: only places of a lower rank, and itself. Places of one rank know nothing of each other. */
const RANKS: Record<string, number> = {
  base: 0,
  event: 1,
  store: 2,
  stream: 2,
  sinks: 2,
  secrets: 2,
  ingest: 3,
  matching: 3,
  dispatch: 3,
  upkeep: 3,
  control: 4,
  'config.ts': 4,
  cli: 5,
  'app.ts': 6,
  'local.ts': 6,
  'main.ts': 7,
  // Commands stand above what they start.
  'cli/demo.ts': 8,
  'cli/main.ts': 9,
}
const ENTRY = 'src/cli/main.ts'

// --- imports --------------------------------------------------------------------------------------------------------------

interface Import {
  /** The imported file, from the project's root. */
  target: string
  line: number
  typeOnly: boolean
  dynamic: boolean
}

/** Imports go down only, and no stage imports another. */
export const importsGoDown: Rule = (source) =>
  importsOf(source)
    .filter((found) => !mayImport(source.path, found))
    .map(({ target, line }) => `${source.path}:${line}: may not import ${target}`)

function mayImport(importer: string, { target, typeOnly, dynamic }: Import): boolean {
  if (!importer.startsWith('src/')) return true
  const from = placeOf(importer)
  // Local mode's parts are loaded where they are wanted, and nowhere else; commands are nobody's part.
  if (target.startsWith('dev/')) return typeOnly || dynamic || from.startsWith('cli')
  if (!target.startsWith('src/')) return target === 'package.json'
  if (from === 'ingest' && target === 'src/matching/match.ts' && typeOnly) return true
  const to = placeOf(target)
  return from === to || rankOf(to) < rankOf(from)
}

/** `store`, `app.ts`, or a command that has a rank of its own. */
function placeOf(path: string): string {
  const inside = path.slice('src/'.length)
  return inside in RANKS ? inside : (inside.split('/')[0] ?? '')
}

function rankOf(place: string): number {
  const rank = RANKS[place]
  if (rank === undefined) throw new Error(`src/${place} has no rank: give it one in test/support/house-rules.ts`)
  return rank
}

/** Every source file is there for somebody: imported by another one, or the entry. */
export function orphans(sources: readonly Source[]): string[] {
  const imported = new Set(sources.flatMap((source) => importsOf(source).map(({ target }) => target)))
  return sources
    .filter(({ path }) => path.startsWith('src/') && path !== ENTRY && !imported.has(path))
    .map(({ path }) => `${path}:1: nobody imports it`)
}

function importsOf(source: Source): Import[] {
  const { module } = parseSync(source.path, source.text)
  const found = [
    ...module.staticImports.map((item) => ({
      specifier: item.moduleRequest.value,
      start: item.start,
      typeOnly: item.entries.length > 0 && item.entries.every(({ isType }) => isType),
      dynamic: false,
    })),
    ...module.staticExports.flatMap((item) =>
      item.entries
        .slice(0, 1)
        .flatMap(({ moduleRequest, isType }) =>
          moduleRequest
            ? [{ specifier: moduleRequest.value, start: item.start, typeOnly: isType, dynamic: false }]
            : [],
        ),
    ),
    ...module.dynamicImports.map((item) => ({
      specifier: source.text.slice(item.moduleRequest.start + 1, item.moduleRequest.end - 1),
      start: item.start,
      typeOnly: false,
      dynamic: true,
    })),
  ]
  return found
    .filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier, start, typeOnly, dynamic }) => ({
      target: join(dirname(source.path), specifier),
      line: lineOf(source.text, start),
      typeOnly,
      dynamic,
    }))
}

// --- code -----------------------------------------------------------------------------------------------------------------

export const functionsAreShort: Rule = (source) => {
  const found: string[] = []
  const check = (node: Node) => {
    const line = lineOf(source.text, node.start)
    const lines = lineOf(source.text, node.end) - line + 1
    if (lines > MAX_FUNCTION_LINES) found.push(`${source.path}:${line}: a function of ${lines} lines`)
  }
  walk(source, { FunctionDeclaration: check, FunctionExpression: check, ArrowFunctionExpression: check })
  return found
}

export const environmentIsReadOnce: Rule = (source) => {
  if (!source.path.startsWith('src/') || source.path === 'src/config.ts') return []
  return accessesOf(source, 'process', ['env']).map((line) => `${source.path}:${line}: reads the environment`)
}

/** They get `asTenant` in its place; what needs both belongs into a module of its own. */
export const tenantsRoutesHaveNoPool: Rule = (source) =>
  source.path.startsWith('src/control/routes/') && /url: '\/v1\//.test(source.text)
    ? importsOf(source)
        .filter(({ target }) => target === 'src/store/pool.ts')
        .map(({ line }) => `${source.path}:${line}: has the pool, and routes of tenants`)
    : []

export const consoleIsForCommands: Rule = (source) => {
  if (!source.path.startsWith('src/') || source.path.startsWith('src/cli/')) return []
  return accessesOf(source, 'console').map((line) => `${source.path}:${line}: writes to the console`)
}

export const everyTestRuns: Rule = (source) =>
  ['test', 'it', 'describe', 'suite']
    .flatMap((name) => accessesOf(source, name, ['only', 'todo']))
    .map((line) => `${source.path}:${line}: runs only a part of the tests`)

const SQL =
  /^\s*(?:select\s[^]*?(?:\bfrom\b|\()|select\s+\d|insert\s+into\s|update\s+\S+\s+(?:\w+\s+)?set\s|delete\s+from\s|with\s+(?:recursive\s+)?\w+\s*(?:\([^)]*\)\s*)?as\s+(?:\w+\s+)*\(|(?:create|alter|drop|lock|truncate)\s+(?:table|index|role|function)\s|(?:begin|commit|rollback)$)/i

export const sqlLivesInTheStore: Rule = (source) => {
  if (!source.path.startsWith('src/') || source.path.startsWith('src/store/')) return []
  const found: string[] = []
  const check = (text: string, start: number) => {
    if (SQL.test(text)) found.push(`${source.path}:${lineOf(source.text, start)}: holds SQL`)
  }
  walk(source, {
    Literal: ({ value, start }) => typeof value === 'string' && check(value, start),
    TemplateLiteral: ({ quasis, start }) => check(quasis.map(({ value }) => value.raw).join('x'), start),
  })
  return found
}

const UNFINISHED = /\b(?:TODO|FIXME|XXX)\b|(?:oxlint|eslint)-disable|@ts-(?:ignore|nocheck)/

export const nothingIsLeftOpen: Rule = (source) =>
  parseSync(source.path, source.text)
    .comments.filter(({ value }) => UNFINISHED.test(value))
    .map(({ start }) => `${source.path}:${lineOf(source.text, start)}: leaves something open`)

export const filesOpenWithTheirReason: Rule = (source) =>
  source.path.endsWith('.test.ts') || /^(#!.*\n)?\/\//.test(source.text)
    ? []
    : [`${source.path}:1: does not say what it is for`]

function accessesOf(source: Source, object: string, properties?: string[]): number[] {
  const found: number[] = []
  walk(source, {
    MemberExpression: (node) => {
      const name =
        node.property.type === 'Identifier'
          ? node.property.name
          : node.property.type === 'Literal'
            ? node.property.value
            : ''
      if (node.object.type !== 'Identifier' || node.object.name !== object) return
      if (!properties || properties.includes(String(name))) found.push(lineOf(source.text, node.start))
    },
  })
  return found
}

function walk(source: Source, visitor: ConstructorParameters<typeof Visitor>[0]): void {
  const { program, errors } = parseSync(source.path, source.text)
  if (errors.length > 0) throw new Error(`${source.path} cannot be parsed: ${errors[0]?.message}`)
  new Visitor(visitor).visit(program)
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}
