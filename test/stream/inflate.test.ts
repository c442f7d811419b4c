// Batches that a few bytes make large: the ordinary ones come out, and one that would grow without bound is refused before it has.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecordsBatch, readRecordsBatch, Reader, type MessageRecord } from '@platformatic/kafka'
import { inflate, MOST_INFLATED_BYTES } from '../../src/stream/inflate.ts'

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const

function batchOf(values: Buffer[], compression: (typeof codecs)[number]): Buffer {
  const messages = values.map((value) => ({ topic: 't', value })) as MessageRecord[]
  return Buffer.from(createRecordsBatch(messages, { compression }).buffer)
}

for (const codec of codecs) {
  test(`a batch of a few MiB that compresses well comes out whole: ${codec}`, () => {
    const values = Array.from({ length: 8 }, (_, at) => Buffer.alloc(1 << 20, `{"at":${at}}`))
    const { records } = readRecordsBatch(Reader.from(inflate(batchOf(values, codec))))
    assert.deepEqual(
      records.map(({ value }) => value),
      values,
    )
  })

  if (codec === 'none') continue
  test(`a batch that would grow beyond the bound is refused: ${codec}`, () => {
    const bomb = batchOf([Buffer.alloc(MOST_INFLATED_BYTES)], codec)
    assert.throws(() => inflate(bomb), /would grow beyond 64 MiB when decompressed/)
  })

  test(`a batch whose bytes are mangled is an error, whichever they are: ${codec}`, () => {
    const whole = batchOf([Buffer.alloc(2_000, 'x')], codec)
    for (let at = 61; at < Math.min(whole.length, 200); at++) {
      const mangled = Buffer.from(whole)
      mangled[at]! ^= 0xff
      try {
        assert.ok(inflate(mangled).length <= MOST_INFLATED_BYTES + 61)
      } catch (error) {
        assert.ok(error instanceof Error, String(error))
      }
    }
  })
}
