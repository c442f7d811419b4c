// What else there is around the hub: the disk in local mode, and the services that it was given the addresses of. Of those it is only
// seen whether they take connections.
import { constants } from 'node:fs'
import { access, mkdir, statfs } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Config, Environment } from '../../config.ts'
import { fail, ok, warn, type Check, type Finding } from './finding.ts'

const CONNECT_MS = 5_000
const FREE_BYTES = 1 << 30

export function diskCheck({ env, dataDir }: Config): Check[] {
  if (env !== 'local') return []
  const run = async (): Promise<Finding[]> => {
    await mkdir(dataDir, { recursive: true })
    await access(dataDir, constants.W_OK)
    const { bavail, bsize } = await statfs(dataDir)
    const free = `${((bavail * bsize) / (1 << 30)).toFixed(1)} GiB free in ${dataDir}`
    return [bavail * bsize < FREE_BYTES ? warn('data directory', free, 'make room') : ok('data directory', free)]
  }
  return [{ name: 'data directory', advice: 'see STREAMING_HUB_DATA_DIR', run }]
}

/** The names that they have in the environment lead to whoever has to heal them. */
export function serviceChecks({ redis, auth, traces }: Config, env: Environment): Check[] {
  const collector = traces && (env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] ?? env['OTEL_EXPORTER_OTLP_ENDPOINT'])
  return [
    ...(redis ? [service('rate limits', redis, 'STREAMING_HUB_REDIS_ADDRESS', warn)] : []),
    ...(auth.jwt ? [service('token keys', addressOf(auth.jwt.jwksUrl), 'STREAMING_HUB_AUTH_JWKS_URL', fail)] : []),
    ...(auth.plugin ? [service('authorization', addressOf(auth.plugin.address), 'PLUGIN_AUTH_ADDRESS', fail)] : []),
    ...(collector ? [service('traces', addressOf(collector), 'OTEL_EXPORTER_OTLP_ENDPOINT', warn)] : []),
  ]
}

interface Address {
  host: string
  port: number
}

function addressOf(url: string): Address {
  const { hostname, port, protocol } = new URL(url)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (protocol === 'https:' ? 443 : 80)) }
}

function service(name: string, { host, port }: Address, variable: string, verdict: typeof warn): Check {
  const run = async (): Promise<Finding[]> => {
    const problem = await connectionProblem({ host, port })
    const where = `${host}:${port}`
    return [
      problem === null
        ? ok(name, `${where} takes connections`)
        : verdict(name, `${where} cannot be reached (${problem})`, `see ${variable}`),
    ]
  }
  return { name, advice: `see ${variable}`, run }
}

async function connectionProblem(address: Address): Promise<string | null> {
  return await new Promise((resolve) => {
    const socket = connect(address)
    const end = (problem: string | null): void => {
      socket.destroy()
      resolve(problem)
    }
    socket.setTimeout(CONNECT_MS, () => end('no answer'))
    socket.once('connect', () => end(null))
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message))
  })
}
