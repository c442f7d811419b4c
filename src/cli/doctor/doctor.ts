// `streaming-hub doctor`: looks at everything that the hub depends on, and says what is wrong and what to do. All checks run at once and
// each has its own time-out, so one thing that is broken hides none of the others. It changes nothing.
import { systemClock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import { ConfigError, loadConfig } from '../../config.ts'
import type { Config, Environment } from '../../config.ts'
import { brokerCheck } from './broker.ts'
import { databaseCheck } from './database.ts'
import { destinationsCheck } from './destinations.ts'
import { fail, ok, warn, type Check, type Finding } from './finding.ts'
import { keysCheck } from './keys.ts'
import { diskCheck, serviceChecks } from './surroundings.ts'

export interface Report {
  /** The worst of the findings'. */
  verdict: Finding['verdict']
  findings: Finding[]
}

const CHECK_MS = 30_000
/** For scripts: warnings are not what a deployment should stop at, unless it wants to. */
const EXIT_CODES = { ok: 0, warn: 1, fail: 2 } as const

/** Looks at everything. Never rejects. */
export async function examine(env: Environment): Promise<Report> {
  const config = configOf(env)
  const findings = Array.isArray(config)
    ? config
    : [...configFindings(config), ...(await runAll(checksOf(config, env)))]
  const verdicts = findings.map(({ verdict }) => verdict)
  return { verdict: verdicts.includes('fail') ? 'fail' : verdicts.includes('warn') ? 'warn' : 'ok', findings }
}

/** Prints the report, and answers the exit code. */
export async function doctor(env: Environment, options: { json?: boolean }): Promise<number> {
  const report = await examine(env)
  console.log(options.json ? JSON.stringify(report, null, 2) : textOf(report))
  return EXIT_CODES[report.verdict]
}

function configOf(env: Environment): Config | Finding[] {
  try {
    return loadConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const faults = error.faults.map(({ variable, message }) =>
      fail('configuration', `${variable} ${message}`, 'docs/config.md describes it'),
    )
    return [...faults, warn('the rest', 'not looked at', 'heal the configuration first')]
  }
}

function configFindings({ env, role }: Config): Finding[] {
  return [ok('configuration', `env ${env}, role ${role}`)]
}

function checksOf(config: Config, env: Environment): Check[] {
  return [
    databaseCheck(config),
    brokerCheck(config),
    keysCheck(config),
    destinationsCheck(config),
    ...serviceChecks(config, env),
    ...diskCheck(config),
  ]
}

async function runAll(checks: readonly Check[]): Promise<Finding[]> {
  return (await Promise.all(checks.map(once))).flat()
}

async function once(check: Check): Promise<Finding[]> {
  const { name, advice } = check
  const over = new AbortController()
  const silence = systemClock
    .sleep(CHECK_MS, over.signal)
    .then(() => [fail(name, `no answer within ${CHECK_MS / 1000} s`, advice)])
  const answer = check.run().catch((error: unknown) => [fail(name, oneLine(messageOf(error)), advice)])
  return await Promise.race([answer, silence]).finally(() => over.abort())
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

const MARKS = { ok: 'ok  ', warn: 'WARN', fail: 'FAIL' } as const

function textOf({ findings }: Report): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const line = ({ check, verdict, detail, advice }: Finding): string =>
    `${MARKS[verdict]}  ${check.padEnd(width)}  ${detail}${advice === null ? '' : `. ${advice[0]?.toUpperCase()}${advice.slice(1)}.`}`
  return findings.map(line).join('\n')
}
