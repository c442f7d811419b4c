// The command line. Each command loads what it needs when it runs, so a faulty configuration is told before anything else.
import { AssertionError } from 'node:assert'
import { Command } from 'commander'
import { VERSION } from '../base/version.ts'
import { environment, loadConfig } from '../config.ts'
import type { CreateOptions } from './keys.ts'

const program = new Command('streaming-hub')
  .description('Takes events from Kafka and delivers each to the subscriptions that want it.')
  .version(VERSION)

program
  .command('serve')
  .description('run the hub, as its environment variables say; without any, everything in local mode')
  .action(async () => {
    const config = loadConfig(environment)
    const { serve } = await import('../main.ts')
    await serve(config)
  })

program
  .command('migrate')
  .description('bring the schema of the database up to date')
  .action(async () => {
    const { migrateSchema } = await import('./migrate.ts')
    console.log(await migrateSchema(loadConfig(environment)))
  })

program
  .command('demo')
  .description('run a hub with sample producers and receivers, and show what arrives')
  .action(async () => {
    const { demo } = await import('./demo.ts')
    await demo(environment)
  })

program
  .command('listen')
  .description('receive webhooks on loopback, and show them')
  .option('-p, --port <port>', 'where to listen; 0 for a free port', '9000')
  .option('-s, --secret <whsec>', "the subscription's signing secret, to verify signatures by")
  .action(async (options: { port: string; secret?: string }) => {
    const { listen } = await import('./listen.ts')
    await listen(options)
  })

program
  .command('doctor')
  .description('look at everything that the hub depends on, and say what is wrong and what to do')
  .option('--json', 'for scripts; the exit code is 0 when all is well, 1 with warnings, 2 when something fails')
  .action(async (options: { json?: boolean }) => {
    const { doctor } = await import('./doctor/doctor.ts')
    process.exit(await doctor(environment, options))
  })

const keys = program.command('keys').description('API keys and key-encryption keys, on the configured database')
const printer = { out: (line: string) => console.log(line), err: (line: string) => console.error(line) }

keys
  .command('create')
  .description('make a key; stdout is the key alone')
  .requiredOption('-n, --name <name>', 'what it is for')
  .requiredOption(
    '-s, --scope <scope...>',
    'subscriptions:read, subscriptions:write, events:read, events:ingest, admin',
  )
  .option('-t, --tenant <tenant>', 'whose it is; without it, only admin and events:ingest')
  .option('-e, --expires <duration>', 'after how long it ends, such as 90d; without it, never')
  .action(async (options: CreateOptions) => {
    const { createKey } = await import('./keys.ts')
    const { key, about } = await createKey(loadConfig(environment), options)
    console.error(about)
    console.log(key)
  })

keys
  .command('list')
  .description('show all keys, the newest first')
  .option('-t, --tenant <tenant>', "one tenant's")
  .action(async (options: { tenant?: string }) => {
    const { listKeys } = await import('./keys.ts')
    console.log(await listKeys(loadConfig(environment), options))
  })

keys
  .command('revoke <id>')
  .description('end a key, by its id or by what it begins with (shk_…)')
  .action(async (id: string) => {
    const { revokeKey } = await import('./keys.ts')
    console.log(await revokeKey(loadConfig(environment), id))
  })

keys
  .command('kek')
  .description('show which key-encryption keys the stored secrets need, and which can be removed')
  .option('--json', 'for scripts')
  .action(async (options: { json?: boolean }) => {
    const { showKeks } = await import('./kek.ts')
    await showKeks(loadConfig(environment), options, printer)
  })

keys
  .command('rotate-kek')
  .description('seal every stored secret by the first key-encryption key, while everything runs')
  .option('--json', 'for scripts: a line for each step; the exit code is 0 when all is done, 2 when some do not open')
  .action(async (options: { json?: boolean }) => {
    const { rotateKek } = await import('./kek.ts')
    process.exitCode = await rotateKek(loadConfig(environment), options, printer)
  })

try {
  await program.parseAsync()
} catch (error) {
  console.error(explain(error))
  process.exitCode = 1
}

/** An operating error in one message, with what led to it; a broken assumption of ours with its stack. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof TypeError || error instanceof ReferenceError || error instanceof AssertionError)
    return String(error.stack)
  return error.cause instanceof Error ? `${error.message}\n  because: ${explain(error.cause)}` : error.message
}
