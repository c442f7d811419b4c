// Run by postgres.test.ts as a process of its own: starts PostgreSQL on the data directory that it is given, says where, and
// holds it until it is killed.
import { startLocalPostgres } from '../../dev/postgres.ts'
import { silentLog } from '../../src/base/log.ts'

const { dsn, directory } = await startLocalPostgres({ dataDir: process.argv[2] ?? '', log: silentLog, durable: false })
console.log(JSON.stringify({ dsn, directory }))
setInterval(() => undefined, 1000)
