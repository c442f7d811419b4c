// A real broker that lets in only who is known, and TLS on the way to it: each login works; each one that is refused, and each
// certificate that is not trusted, is said once, in words that name the cure and no secret, while the stream goes on trying.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Producer } from '@platformatic/kafka'
import { systemClock } from '../../src/base/clock.ts'
import { kafkaConnection, type KafkaAccess } from '../../src/stream/connection.ts'
import type { Stream } from '../../src/stream/stream.ts'
import { selfSigned } from '../support/certificate.ts'
import { testDatabase } from '../support/database.ts'
import { startHub } from '../support/hub.ts'
import { realKafka } from '../support/kafka.ts'
import { secureKafka, type SecureKafka } from '../support/secure-kafka.ts'
import { createInbox, readableLog, testStream, Watch } from '../support/stream.ts'
import { tokenIssuer } from '../support/token-issuer.ts'

const TOPIC = 'lerian.streaming.lender'
const PLACE = `${TOPIC}:0`
const WRONG = 's3cr3t'
const UNREACHABLE = 'the Kafka cluster cannot be reached'

test('a broker with TLS and a login', async (t) => {
  if (realKafka(t) === null) return
  await using issuer = await tokenIssuer()
  await using kafka = await secureKafka(issuer)
  await kafka.admin.createTopics({ topics: [TOPIC], partitions: 1, replicas: 1 })
  await send(kafka, 'an event')
  const scram = { username: 'a=hub,b', password: ' a scram, password=ñ"\'$\\{x} ' }
  await kafka.setScramUser(scram.username, scram.password)
  const token = { tokenUrl: issuer.tokenUrl, clientId: 'hub', clientSecret: issuer.secret, scope: 'kafka' }

  const logins: [string, Partial<KafkaAccess>][] = [
    ['SCRAM-SHA-256', { sasl: { mechanism: 'SCRAM-SHA-256', ...scram } }],
    ['SCRAM-SHA-512', { sasl: { mechanism: 'SCRAM-SHA-512', ...scram } }],
    ['PLAIN', { sasl: { mechanism: 'PLAIN', username: 'hub', password: kafka.plainPassword } }],
    ['OAUTHBEARER', { oauth: token }],
  ]
  for (const [mechanism, login] of logins) {
    await t.test(`${mechanism} reads`, async () => {
      await using reading = await read(kafka, login)
      await reading.watch.until(() => reading.inbox.values(PLACE).includes('an event'))
      assert.deepEqual(reading.log.messages('warn'), [])
    })
  }

  const refused: [string, Partial<KafkaAccess>, RegExp][] = [
    [
      'SCRAM-SHA-256 with a wrong password',
      { sasl: { mechanism: 'SCRAM-SHA-256', username: 'hub', password: WRONG } },
      /refuses the login: Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256$/,
    ],
    [
      'PLAIN with a wrong password',
      { sasl: { mechanism: 'PLAIN', username: 'hub', password: WRONG } },
      /refuses the login: Authentication failed: Invalid username or password$/,
    ],
    [
      'a client whose secret is wrong',
      { oauth: { ...token, clientSecret: WRONG } },
      /: no token can be had from 127\.0\.0\.1:\d+: it answers 401 \(invalid_client\)$/,
    ],
    [
      'an authority that is not the right one',
      { caCert: selfSigned('kafka.test').cert },
      /has a certificate that is not trusted \(self-signed certificate\): name its authority in STREAMING_HUB_KAFKA_CA_CERT$/,
    ],
    ['no authority of its own at all', { caCert: null }, /has a certificate that is not trusted/],
    [
      'a broker by another name than its certificate has',
      { brokers: [kafka.secure.replace('127.0.0.1', 'localhost')] },
      /has a certificate that is not accepted \(Hostname\/IP does not match/,
    ],
    ['no TLS', { tlsEnabled: false, sasl: null }, /wants TLS, and STREAMING_HUB_KAFKA_TLS_ENABLED is false$/],
    [
      'a certificate that has run out',
      { brokers: [kafka.expired], caCert: kafka.expiredAuthority },
      /has a certificate that is not accepted \(certificate has expired\)$/,
    ],
    ['TLS and no login', { sasl: null }, /closes the connection without an answer: it may want a login/],
    ['a login without TLS', { tlsEnabled: false }, /it may want TLS, and STREAMING_HUB_KAFKA_TLS_ENABLED is false$/],
    ['a login where there is none', { brokers: [kafka.tlsOnly] }, /takes no login here: leave STREAMING_HUB_KAFKA_/],
    [
      'a mechanism that the broker does not know',
      { brokers: [kafka.plainOnly] },
      /does not know this way to log in: it offers PLAIN$/,
    ],
    ['TLS to a broker that has none', { brokers: [kafka.open] }, /does not speak TLS$/],
  ]
  for (const [what, access, problem] of refused) {
    await t.test(`${what}: said once, without a secret, and tried again`, async () => {
      const login = access.oauth ? {} : { sasl: { mechanism: 'SCRAM-SHA-256' as const, ...scram } }
      await using reading = await read(kafka, { ...login, ...access })
      const told = (): string => reading.stream.health().problem ?? ''
      await reading.watch.until(() => problem.test(told()) && reading.attempts() > 2)
      assert.ok(told().startsWith(UNREACHABLE))
      assert.deepEqual(reading.log.messages('warn'), [UNREACHABLE])
      // On a busy machine the first attempt may have been too slow for any other reason.
      assert.match(
        reading.log.reasons()[0] ?? '',
        new RegExp(`${problem.source.replace(/^: /, '')}|in time$|timed out`),
      )
      for (const secret of [WRONG, scram.password, issuer.secret]) {
        assert.ok(!`${reading.log.text()}${told()}`.includes(secret), secret)
      }
    })
  }

  await t.test('TLS without a login, where none is wanted, reads', async () => {
    await using reading = await read(kafka, { brokers: [kafka.tlsOnly] })
    await reading.watch.until(() => reading.inbox.values(PLACE).includes('an event'))
    assert.deepEqual(reading.log.messages('warn'), [])
  })

  await t.test('a broker that sends its clients to a name that nobody knows: said once, with the name', async () => {
    await using reading = await read(kafka, { brokers: [kafka.astray], sasl: { mechanism: 'SCRAM-SHA-256', ...scram } })
    await reading.watch.until(() => reading.stream.health().problem?.includes('astray.invalid') === true)
    assert.match(
      reading.stream.health().problem ?? '',
      /: astray\.invalid:\d+ has a name that is not known here: see STREAMING_HUB_KAFKA_BROKERS and the brokers'/,
    )
    assert.deepEqual(reading.log.messages('warn'), ['the consumer group cannot be joined'])
  })

  await t.test('a user who is made later gets in without a restart', async () => {
    const password = randomUUID()
    await using reading = await read(kafka, { sasl: { mechanism: 'SCRAM-SHA-512', username: 'late', password } })
    await reading.watch.until(() => reading.stream.health().problem?.includes('invalid credentials') === true)
    await kafka.setScramUser('late', password)
    await reading.watch.until(() => reading.inbox.values(PLACE).includes('an event'))
    assert.deepEqual(reading.log.messages('warn'), [UNREACHABLE])
    assert.ok(reading.log.messages().includes(`${UNREACHABLE}: over`))
  })

  await t.test('a token that the broker refuses is said, forgotten, and fetched anew', async () => {
    issuer.next.audience = 'somebody else'
    await using reading = await read(kafka, { oauth: token })
    await reading.watch.until(() => isUnreachable(reading))
    assert.match(reading.stream.health().problem ?? '', /refuses the login: the token is refused \(invalid_token\)$/)
    issuer.next.audience = 'kafka'
    await reading.watch.until(() => reading.inbox.values(PLACE).includes('an event'))
    assert.deepEqual(reading.log.messages('warn'), [UNREACHABLE])
  })

  await t.test('a token is renewed before it runs out, and the reading goes on', async () => {
    issuer.next.lifetimeSeconds = 3
    const before = issuer.issued
    await using reading = await read(kafka, { oauth: token })
    await reading.watch.until(() => issuer.issued >= before + 3)
    const value = `after ${issuer.issued - before} tokens`
    await send(kafka, value)
    await reading.watch.until(() => reading.inbox.values(PLACE).includes(value))
    assert.deepEqual(reading.log.messages('warn'), [])
    issuer.next.lifetimeSeconds = 3_600
  })

  await t.test('a hub is told by its variables, and says at /readyz what is wrong', async (hubTest) => {
    await using database = await testDatabase()
    const folder = await mkdtemp(join(tmpdir(), 'authority-'))
    hubTest.after(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'ca.pem')
    await writeFile(file, kafka.authority)
    const password = randomUUID()
    const hub = await startHub({
      STREAMING_HUB_POSTGRES_DSN: database.dsn,
      STREAMING_HUB_DATA_DIR: folder,
      STREAMING_HUB_KAFKA_BROKERS: kafka.secure,
      STREAMING_HUB_KAFKA_TLS_ENABLED: 'true',
      STREAMING_HUB_KAFKA_CA_CERT: file,
      STREAMING_HUB_KAFKA_SCRAM_MECHANISM: 'SCRAM-SHA-512',
      STREAMING_HUB_KAFKA_SCRAM_USERNAME: 'tenant',
      STREAMING_HUB_KAFKA_SCRAM_PASSWORD: password,
    })
    hubTest.after(() => hub.kill())
    const unready = await readiness(hub.url, ({ stream }) => stream !== undefined && stream.includes('refuses'))
    assert.match(unready['stream'] ?? '', /^the Kafka cluster cannot be reached: .* refuses the login: /)
    await kafka.setScramUser('tenant', password)
    await readiness(hub.url, (problems) => Object.keys(problems).length === 0)
    assert.equal(await hub.stop(), 0)
    assert.ok(!hub.lines.join().includes(password))
  })

  await t.test('a hub logs in by OAUTHBEARER, with the authority as text', async (hubTest) => {
    await using database = await testDatabase()
    const folder = await mkdtemp(join(tmpdir(), 'hub-'))
    hubTest.after(() => rm(folder, { recursive: true, force: true }))
    const hub = await startHub({
      STREAMING_HUB_POSTGRES_DSN: database.dsn,
      STREAMING_HUB_DATA_DIR: folder,
      STREAMING_HUB_KAFKA_BROKERS: kafka.secure,
      STREAMING_HUB_KAFKA_TLS_ENABLED: 'true',
      STREAMING_HUB_KAFKA_CA_CERT: kafka.authority,
      STREAMING_HUB_KAFKA_OAUTH_TOKEN_URL: issuer.tokenUrl,
      STREAMING_HUB_KAFKA_OAUTH_CLIENT_ID: 'hub',
      STREAMING_HUB_KAFKA_OAUTH_CLIENT_SECRET: issuer.secret,
      STREAMING_HUB_KAFKA_OAUTH_SCOPE: 'kafka',
    })
    hubTest.after(() => hub.kill())
    await readiness(hub.url, (problems) => Object.keys(problems).length === 0)
    assert.equal(await hub.stop(), 0)
    assert.ok(!hub.lines.join().includes(issuer.secret))
  })
})

/** A stream that reads the topic through a door that counts who comes; in a group of its own. */
async function read(kafka: SecureKafka, access: Partial<KafkaAccess>) {
  const watch = new Watch()
  const log = readableLog(watch)
  const inbox = createInbox(watch)
  const door = await countingDoor(access.brokers?.[0] ?? kafka.secure)
  const connection = await kafkaConnection(
    {
      clientId: 'test',
      tlsEnabled: true,
      caCert: kafka.authority,
      sasl: null,
      oauth: null,
      ...access,
      brokers: [door.at],
    },
    systemClock,
  )
  const stream = testStream({ connection, brokers: [], handler: inbox.handler, log: log.log, groupId: randomUUID() })
  await stream.start()
  const dispose = async (): Promise<void> => {
    await stream[Symbol.asyncDispose]()
    door.close()
  }
  return { watch, log, inbox, stream, attempts: () => door.count(), [Symbol.asyncDispose]: dispose }
}

function isUnreachable({ stream }: { stream: Stream }): boolean {
  return stream.health().problem?.startsWith(UNREACHABLE) === true
}

/** An address of its own, with the host of `target` and leading to it. */
async function countingDoor(target: string): Promise<{ at: string; count: () => number; close: () => void }> {
  const [host = '', port = ''] = target.split(':')
  let count = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    count++
    const through = connect(Number(port), '127.0.0.1')
    for (const [one, other] of [[socket, through] as const, [through, socket] as const]) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = (): void => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return { at: `${host}:${(server.address() as AddressInfo).port}`, count: () => count, close }
}

async function send({ open }: SecureKafka, value: string): Promise<void> {
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [open], retryDelay: 100, retries: 20 })
  await producer.send({ messages: [{ topic: TOPIC, partition: 0, value: Buffer.from(value) }], acks: -1 })
  await producer.close()
}

/** What /readyz complains of, by check, once that is as `wanted`. */
async function readiness(
  url: string,
  wanted: (problems: Record<string, string>) => boolean,
): Promise<Record<string, string>> {
  for (;;) {
    const body = (await (await fetch(`${url}/readyz`)).json()) as { errors?: { path: string; message: string }[] }
    const problems = Object.fromEntries((body.errors ?? []).map(({ path, message }) => [path, message]))
    if (wanted(problems)) return problems
    await delay(50)
  }
}
