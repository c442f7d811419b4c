// Bodies that a careless hub would change on their way through: none of them may lose or gain a byte.
import { seededRandom } from '../../support/random.ts'

const random = seededRandom(1)

export const awkwardBodies: Record<string, Buffer> = {
  'a big integer': Buffer.from('{"n":12345678901234567890123456789}'),
  'a long fraction': Buffer.from('{"n":0.10000000000000000000000001,"z":1.0}'),
  'a duplicate key': Buffer.from('{"a":1,"a":2}'),
  'an escaped NUL': Buffer.from('{"a":"\\u0000"}'),
  'a bare NUL': Buffer.from('{"a":"\0"}'),
  'an escaped lone surrogate': Buffer.from('{"a":"\\ud800"}'),
  'a lone surrogate in bytes': Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
  'bytes that are not UTF-8': Buffer.from([0xff, 0xfe, 0x00, 0x80]),
  'a byte order mark': Buffer.from('\ufeff{"a":1}'),
  'white space around': Buffer.from('\r\n {"a":1} \t\n'),
  'the line separators': Buffer.from('{"a":"\u2028\u2029"}'),
  'no bytes': Buffer.alloc(0),
  'one mebibyte': Buffer.from(Array.from({ length: 1 << 20 }, () => random() * 256)),
}
