// The destinations: does the name resolve, is the address allowed, does a connection come about, with TLS that is trusted. Through the
// same guard as a delivery; no request is ever sent. One that cannot be reached is its owner's matter, so that is a warning.
import type { buildConnector } from 'undici'
import { messageOf } from '../../base/errors.ts'
import type { Config } from '../../config.ts'
import { createConnector } from '../../sinks/webhook/connector.ts'
import { openDiagnosis, sampleUrls } from '../../store/diagnosis.ts'
import { ok, warn, type Check, type Finding } from './finding.ts'

const ANSWER_MS = 8_000
const CONNECT_MS = 5_000
const MOST_URLS = 200
const MOST_HOSTS = 50
const AT_ONCE = 10
const NAMED = 5

export function destinationsCheck({ postgres, allowPrivateSinks, proxy }: Config): Check {
  return {
    name: 'destinations',
    advice: 'they are read from the database: heal that first',
    run: async () => {
      if (postgres.dsn === null) return [ok('destinations', 'not looked at: the database starts with the hub')]
      await using session = await openDiagnosis(postgres.dsn, ANSWER_MS)
      const origins = [...new Set((await sampleUrls(session.db, MOST_URLS)).flatMap(originOf))].slice(0, MOST_HOSTS)
      if (origins.length === 0) return [ok('destinations', 'there are none')]
      const { connect } = createConnector({ allowPrivate: allowPrivateSinks, proxy })
      const problems: string[] = []
      const rest = [...origins]
      const work = async (): Promise<void> => {
        for (let origin = rest.shift(); origin !== undefined; origin = rest.shift()) {
          const problem = await problemOf(new URL(origin), connect)
          if (problem !== null) problems.push(`${new URL(origin).host} (${problem})`)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      return [finding(origins.length, problems)]
    },
  }
}

function finding(looked: number, problems: readonly string[]): Finding {
  if (problems.length === 0) return ok('destinations', `${looked} looked at, all take connections`)
  const more = problems.length - NAMED
  const named = problems.slice(0, NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '')
  return warn(
    'destinations',
    `${problems.length} of ${looked} cannot be reached: ${named}`,
    problems.length === looked && looked > 1
      ? "that is all of them: see this machine's resolver, egress rules and proxy"
      : 'tell their owners; deliveries to them are retried by themselves',
  )
}

function originOf(url: string): string[] {
  const parsed = URL.parse(url)
  return parsed ? [parsed.origin] : []
}

async function problemOf(url: URL, connect: buildConnector.connector): Promise<string | null> {
  return await new Promise((resolve) => {
    const giveUp = setTimeout(() => resolve('no answer'), CONNECT_MS)
    const hostname = url.hostname.replace(/^\[|\]$/g, '')
    const target = { hostname, host: url.host, protocol: url.protocol, port: url.port, servername: hostname }
    connect(target, (error, socket) => {
      clearTimeout(giveUp)
      socket?.destroy()
      if (!error) return resolve(null)
      const { code } = error as { code?: string }
      resolve(code === 'ERR_IP_BLOCKED' ? 'a private address, which is refused' : (code ?? messageOf(error)))
    })
  })
}
