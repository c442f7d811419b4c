// Structured logs (pino): one wide line for each unit of work, snake_case fields, never a body, never a secret.
import { pino, type Logger } from 'pino'

export type Log = Logger
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'

/** JSON lines on stdout; human-readable where stdout is a terminal. */
export function createLog(level: LogLevel): Log {
  return pino({
    level,
    base: null,
    redact: { paths: CREDENTIALS, censor: '***' },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
    ...(process.stdout.isTTY && {
      transport: {
        target: 'pino-pretty',
        options: { ignore: 'pid,hostname', singleLine: true, errorLikeObjectKeys: [] },
      },
    }),
  })
}

const HEADERS = ['authorization', 'proxy-authorization', 'x-api-key', 'cookie', 'set-cookie']
/** Nobody logs headers; who does all the same, in a record or an error, logs no credential. */
const CREDENTIALS = HEADERS.flatMap((name) => ['', '*.', '*.*.'].map((above) => `${above}headers["${name}"]`))

/** For tests, and parts that are asked to be quiet. */
export const silentLog: Log = pino({ level: 'silent' })
