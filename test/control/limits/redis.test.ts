// A real Redis: replicas count together, atomically; and what happens while it is away, hangs, or does not let us in.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { systemClock } from '../../../src/base/clock.ts'
import { HubError } from '../../../src/base/errors.ts'
import { createCounter, REDIS_AWAY, type Count } from '../../../src/control/limits/counter.ts'
import { createRateLimits } from '../../../src/control/limits/rate-limits.ts'
import { connectRedis, type RedisSettings } from '../../../src/control/limits/redis.ts'
import { Troubles } from '../../../src/base/troubles.ts'
import { selfSigned } from '../../support/certificate.ts'
import { realRedis, type TestRedis } from '../../support/redis.ts'
import { readableLog, Watch } from '../../support/stream.ts'

const limit = { name: 'test', max: 10, windowMs: 60_000 }

/** One replica's counting. */
async function replica(redis: TestRedis, options: { failOpen?: boolean } & Partial<RedisSettings> = {}) {
  const { failOpen = false, ...given } = options
  const watch = new Watch()
  const log = readableLog(watch)
  const troubles = new Troubles(log.log, systemClock)
  const settings = { host: redis.host, port: redis.port, password: null, tls: false, caCert: null, timeoutMs: 10_000 }
  const shared = await connectRedis({ ...settings, ...given }, troubles)
  await shared.start()
  const deps = { redis: shared.redis, troubles }
  const stop = (): Promise<void> => shared.stop(AbortSignal.abort())
  return { watch, log, troubles, deps, ...createCounter(limit, deps, failOpen), stop, [Symbol.asyncDispose]: stop }
}

const allowed = (counts: readonly Count[]): number => counts.filter((count) => count.allowed).length

function isUnavailable(error: unknown): boolean {
  return error instanceof HubError && error.code === 'unavailable'
}

test('replicas count together, and never let in more than the limit', async (t) => {
  await using redis = await realRedis(t)
  if (redis === null) return
  await using one = await replica(redis)
  await using other = await replica(redis)
  const counts = await Promise.all(Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? one : other).add('key')))
  assert.equal(allowed(counts), limit.max)
  assert.ok(counts.every(({ resetMs }) => resetMs > 0 && resetMs <= limit.windowMs))
  assert.equal(allowed([await other.add('another key')]), 1)
  assert.deepEqual(one.log.messages('warn'), [])
})

test('a window ends by Redis’ own clock', async (t) => {
  await using redis = await realRedis(t)
  if (redis === null) return
  await using one = await replica(redis)
  const counter = createCounter({ name: 'short', max: 1, windowMs: 1_000 }, one.deps, false)
  assert.equal((await counter.add('key')).allowed, true)
  while ((await counter.add('key')).allowed);
  while (!(await counter.add('key')).allowed);
})

test('without Redis nobody is let in, or each replica counts by itself; said once, and over when it is back', async (t) => {
  await using redis = await realRedis(t)
  if (redis === null) return
  await using closed = await replica(redis)
  await using open = await replica(redis, { failOpen: true })
  for (let i = 0; i < limit.max; i++) await closed.add('key')
  await redis.kill()
  await assert.rejects(closed.add('key'), isUnavailable)
  await assert.rejects(closed.add('key'), isUnavailable)
  const alone = []
  for (let i = 0; i < 15; i++) alone.push(await open.add('key'))
  assert.equal(allowed(alone), limit.max)
  assert.deepEqual([closed.log.messages('warn'), open.log.messages('warn')], [[REDIS_AWAY], [REDIS_AWAY]])
  await redis.start()
  await closed.watch.until(() => closed.troubles.find(REDIS_AWAY) === null)
  assert.equal((await closed.add('key')).allowed, true)
  assert.deepEqual(closed.log.messages(), [REDIS_AWAY, `${REDIS_AWAY}: over`])
})

test('operators are served without it', async (t) => {
  await using redis = await realRedis(t)
  if (redis === null) return
  await using one = await replica(redis)
  const quota = { max: 2, windowMs: 60_000 }
  const tiers = { relaxed: quota, default: quota, aggressive: quota }
  const limits = createRateLimits({ tiers, tenantFactor: 1, pull: quota, failedAuth: quota, failOpen: false }, one.deps)
  await redis.kill()
  const who = { kind: 'api_key', id: 'one', name: 'one' } as const
  const caller = { ...who, tenantId: 'a', isConfined: false, scopes: new Set<never>() }
  await assert.rejects(limits.count('default', caller, false), isUnavailable)
  assert.equal(allowed(await limits.count('default', caller, true)), 1)
})

test('a Redis that hangs counts as away after the time-out', async (t) => {
  await using redis = await realRedis(t)
  if (redis === null) return
  await using one = await replica(redis, { timeoutMs: 1_000 })
  await one.add('key')
  redis.pause()
  await assert.rejects(one.add('key'), isUnavailable)
  assert.match(one.troubles.find(REDIS_AWAY)?.message ?? '', /timed out/)
  redis.resume()
  while (one.troubles.find(REDIS_AWAY) !== null) await one.add('key').catch(() => undefined)
})

test('a primary that has become a replica is left, and found again when it is one once more', async (t) => {
  await using redis = await realRedis(t)
  if (redis === null) return
  await using one = await replica(redis)
  const operator = new Redis({ host: redis.host, port: redis.port })
  t.after(() => operator.disconnect())
  await operator.replicaof('127.0.0.1', 1)
  const left = once(one.deps.redis, 'close')
  await assert.rejects(one.add('key'), isUnavailable)
  await left
  await operator.replicaof('NO', 'ONE')
  await one.watch.until(() => one.troubles.find(REDIS_AWAY) === null)
  while (!(await one.add('key').catch(() => null))?.allowed);
})

test('a wrong password is said, without it, and the right one lets in', async (t) => {
  const password = 'p@ss "word" {}'
  await using redis = await realRedis(t, ['--requirepass', password])
  if (redis === null) return
  await using right = await replica(redis, { password })
  assert.equal((await right.add('key')).allowed, true)
  await using wrong = await replica(redis, { password: 'not the one' })
  await assert.rejects(wrong.add('key'), isUnavailable)
  await wrong.watch.until(() => /WRONGPASS/.test(wrong.log.text()))
  assert.deepEqual(wrong.log.messages('warn'), [REDIS_AWAY])
  assert.ok(!wrong.log.text().includes('not the one'))
})

test('TLS is spoken with an authority of its own, and not with another', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'redis-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const { cert, key } = selfSigned('redis.test')
  await Promise.all([writeFile(join(folder, 'cert.pem'), cert), writeFile(join(folder, 'key.pem'), key)])
  const files = ['--tls-cert-file', join(folder, 'cert.pem'), '--tls-key-file', join(folder, 'key.pem')]
  await using redis = await realRedis(t, [...files, '--tls-auth-clients', 'no'])
  if (redis === null) return
  await using trusting = await replica(redis, { tls: true, caCert: cert })
  assert.equal((await trusting.add('key')).allowed, true)
  await using suspicious = await replica(redis, { tls: true, caCert: selfSigned('redis.test').cert })
  await assert.rejects(suspicious.add('key'), isUnavailable)
  await suspicious.watch.until(() => /self-signed certificate/.test(suspicious.log.text()))
})
