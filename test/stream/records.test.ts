import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecordsBatch, type MessageRecord } from '@platformatic/kafka'
import * as fc from 'fast-check'
import { PartitionLog } from '../../dev/broker/log.ts'
import type { FetchedPartition } from '../../src/stream/fetch.ts'
import { slicesOf, type Slice } from '../../src/stream/records.ts'
import { Room } from '../../src/stream/room.ts'

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
const roomy = { records: 1_000, bytes: 1 << 20 }

for (const codec of codecs) {
  test(`records come out as they were written: ${codec}`, async () => {
    const headers = new Map([
      [Buffer.from('ce-id'), Buffer.from('1')],
      [Buffer.from('ce-id'), Buffer.from('2')],
      [Buffer.from([0xff, 0]), Buffer.alloc(0)],
    ])
    const [slice] = await read([batch(['one', null], { codec, headers })])
    assert.equal(slice?.next, 2n)
    assert.deepEqual(
      slice?.records.map(({ value }) => value),
      [Buffer.from('one'), null],
    )
    assert.deepEqual(slice?.records[1]?.headers, [...headers])
    assert.deepEqual(slice?.records[1]?.position, { partition: 4, offset: 1n })
    assert.equal(slice?.records[1]?.timestamp, 1_700_000_000_000)
    assert.deepEqual(slice?.records[1]?.key, Buffer.from('key'))
  })
}

test('records before the position are left out, though their batch comes whole', async () => {
  const [slice] = await read([batch(['a', 'b', 'c'])], { position: 1n })
  assert.deepEqual(valuesOf([slice]), ['b', 'c'])
})

test('slices hold no more records than asked for, in order, and each says where it ends', async () => {
  const slices = await read([batch(['a', 'b', 'c']), batch(['d', 'e'])], { limits: { records: 2, bytes: 1 << 20 } })
  assert.deepEqual(
    slices.map((slice) => valuesOf([slice])),
    [['a', 'b'], ['c', 'd'], ['e']],
  )
  assert.deepEqual(
    slices.map(({ next }) => next),
    [2n, 4n, 5n],
  )
})

test('a slice is cut where it would grow too large, and one large record is a slice of its own', async () => {
  const large = 'x'.repeat(1_000)
  const slices = await read([batch(['a', large, 'b', 'c'])], { limits: { records: 10, bytes: 500 } })
  assert.deepEqual(
    slices.map((slice) => valuesOf([slice])),
    [['a'], [large], ['b', 'c']],
  )
})

test('a batch that is cut off at the end is left for the next fetch', async () => {
  const whole = batch(['a'])
  const [slice] = await read([whole, batch(['b'])], { cutAt: whole.length + 70 })
  assert.deepEqual(valuesOf([slice]), ['a'])
  assert.equal(slice?.next, 1n)
})

test('where compaction has emptied the end of a batch the position still moves past it', async () => {
  const emptied = batch(['a', 'b', 'c'])
  emptied.writeInt32BE(9, 23) // the batch once had ten records
  const slices = await read([emptied], { limits: { records: 3, bytes: 1 << 20 } })
  assert.equal(slices.at(-1)?.next, 10n)
})

test('a broken batch throws, after what stands before it has been given', async () => {
  const broken = batch(['b'], { codec: 'gzip' })
  broken.fill(0xee, 61)
  const from = { position: 0n, limits: { records: 1, bytes: 1 } }
  const slices = slicesOf(fetched([batch(['a']), batch(['a2']), broken]), from, opening())
  assert.deepEqual(valuesOf([(await slices.next()).value as Slice]), ['a'])
  assert.deepEqual(valuesOf([(await slices.next()).value as Slice]), ['a2'])
  await assert.rejects(slices.next())
})

test('a batch is read no further than its slices are asked for', async () => {
  const oneTooFew = batch(['a', 'b', 'c'])
  oneTooFew.writeInt32BE(4, 57)
  const from = { position: 0n, limits: { records: 1, bytes: 1 << 20 } }
  const slices = slicesOf(fetched([oneTooFew]), from, opening())
  for (const value of ['a', 'b', 'c']) assert.deepEqual(valuesOf([(await slices.next()).value as Slice]), [value])
  await assert.rejects(slices.next())
})

test('an open batch takes room for its bytes and for one slice of its records', async () => {
  const many = batch(
    Array.from({ length: 5_000 }, () => 'value'),
    { codec: 'zstd' },
  )
  const room = new Room(1 << 30)
  const from = { position: 0n, limits: { records: 100, bytes: 1 << 20 } }
  const slices = slicesOf(fetched([many]), from, { room, left: opening().left })
  await slices.next()
  assert.ok(room.held < 5_000 * 100 + 100 * 4096, `${room.held} bytes`)
  assert.ok(room.held > 5_000 * 10 + 100 * 1024, `${room.held} bytes`)
  await slices.return(undefined)
  assert.equal(room.held, 0)
})

test('the record format of the years before 2017 is refused by name', async () => {
  const old = batch(['a'])
  old.writeInt8(1, 16)
  await assert.rejects(read([old]), /record format 1/)
})

test('records of an aborted transaction are left out, those of others are not', async () => {
  const slices = await read(
    [
      batch(['lost'], { producer: 7n }),
      batch(['kept'], { producer: 8n }),
      batch(['plain']),
      marker(7n, 'abort'),
      batch(['later'], { producer: 7n }),
    ],
    { aborted: [{ producerId: 7n, firstOffset: 0n }] },
  )
  assert.deepEqual(valuesOf(slices), ['kept', 'plain', 'later'])
  assert.equal(slices.at(-1)?.next, 5n)
})

test('one producer may abort twice, with a commit in between', async () => {
  const slices = await read(
    [
      batch(['lost'], { producer: 7n }),
      marker(7n, 'abort'),
      batch(['kept'], { producer: 7n }),
      marker(7n, 'commit'),
      batch(['lost too'], { producer: 7n }),
      marker(7n, 'abort'),
    ],
    {
      aborted: [
        { producerId: 7n, firstOffset: 0n },
        { producerId: 7n, firstOffset: 4n },
      ],
    },
  )
  assert.deepEqual(valuesOf(slices), ['kept'])
  assert.equal(slices.at(-1)?.next, 6n)
})

test('an aborted transaction whose marker was not fetched yet is left out all the same', async () => {
  const slices = await read([batch(['lost'], { producer: 7n })], { aborted: [{ producerId: 7n, firstOffset: 0n }] })
  assert.deepEqual(valuesOf(slices), [])
  assert.equal(slices[0]?.next, 1n)
})

test('however a log is batched, compressed and sliced, every record comes out once and in order', async () => {
  const log = fc.array(
    fc.record({ values: fc.array(fc.string(), { minLength: 1, maxLength: 5 }), codec: fc.constantFrom(...codecs) }),
  )
  const limits = fc.record({ records: fc.integer({ min: 1, max: 7 }), bytes: fc.integer({ min: 1, max: 200 }) })
  await fc.assert(
    fc.asyncProperty(log, limits, fc.nat({ max: 10 }), async (batches, limit, skipped) => {
      const written = batches.flatMap(({ values }) => values)
      const position = BigInt(Math.min(skipped, written.length))
      const bytes = batches.map(({ values, codec }) => batch(values, { codec }))
      const slices = await read(bytes, { position, limits: limit })
      assert.deepEqual(valuesOf(slices), written.slice(Number(position)))
      const cramped = await read(bytes, { position, limits: limit, room: new Room(1) })
      assert.deepEqual(valuesOf(cramped), written.slice(Number(position)))
      assert.ok(slices.every(({ records }) => records.length <= limit.records))
      assert.equal(slices.at(-1)?.next ?? position, BigInt(written.length))
    }),
  )
})

interface BatchOptions {
  codec?: (typeof codecs)[number]
  headers?: Map<Buffer, Buffer>
  /** Makes the batch part of this producer's transaction. */
  producer?: bigint
}

function batch(values: (string | null)[], { codec = 'none', headers, producer }: BatchOptions = {}): Buffer {
  const messages = values.map((value) => ({
    topic: 't',
    key: Buffer.from('key'),
    value: value === null ? null : Buffer.from(value),
    timestamp: 1_700_000_000_000n,
    ...(headers && { headers }),
  })) as MessageRecord[]
  const transaction = producer === undefined ? {} : { producerId: producer, transactionalId: 'tx' }
  return Buffer.from(createRecordsBatch(messages, { compression: codec, ...transaction }).buffer)
}

/** The control record with which a transaction ends. */
function marker(producer: bigint, kind: 'abort' | 'commit'): Buffer {
  const key = Buffer.from([0, 0, 0, kind === 'abort' ? 0 : 1])
  const messages = [{ topic: 't', key, value: Buffer.alloc(6), timestamp: 0n }]
  const options = { compression: 'none', producerId: producer, transactionalId: 'tx' } as const
  const bytes = Buffer.from(createRecordsBatch(messages, options).buffer)
  bytes.writeInt16BE(bytes.readInt16BE(21) | 0x20, 21)
  return bytes
}

interface ReadOptions {
  position?: bigint
  limits?: typeof roomy
  aborted?: FetchedPartition['aborted']
  cutAt?: number
  room?: Room
}

async function read(batches: Buffer[], given: ReadOptions = {}): Promise<Slice[]> {
  const { position = 0n, limits = roomy, aborted = [], cutAt, room = new Room(1 << 30) } = given
  const whole = fetched(batches)
  const part = { ...whole, aborted, bytes: whole.bytes.subarray(0, cutAt) }
  const slices = await Array.fromAsync(slicesOf(part, { position, limits }, { room, left: opening().left }))
  assert.equal(room.held, 0)
  return slices
}

function opening() {
  return { room: new Room(1), left: new AbortController().signal }
}

function fetched(batches: Buffer[]): FetchedPartition {
  const log = new PartitionLog(1 << 30)
  log.append(Buffer.concat(batches))
  const bytes = log.read(0n, 1 << 30, true)
  return { topic: 't', partition: 4, errorCode: 0, end: log.end, aborted: [], bytes }
}

function valuesOf(slices: (Slice | undefined)[]): (string | null)[] {
  return slices.flatMap((slice) => slice?.records.map(({ value }) => value?.toString() ?? null) ?? [])
}
