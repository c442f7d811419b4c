// The bodies of Kafka's requests and responses, read and written field by field. From some version on each request is "flexible":
// strings, bytes and arrays carry compact lengths, and every structure ends in tagged fields; both classes hide that difference.
import type { Reader, Writer } from '@platformatic/kafka'

export class RequestBody {
  readonly version: number
  readonly #reader: Reader
  readonly #flexible: boolean

  constructor(reader: Reader, { version, flexible }: { version: number; flexible: boolean }) {
    this.version = version
    this.#reader = reader
    this.#flexible = flexible
  }

  int8 = (): number => this.#reader.readInt8()
  int16 = (): number => this.#reader.readInt16()
  int32 = (): number => this.#reader.readInt32()
  int64 = (): bigint => this.#reader.readInt64()
  boolean = (): boolean => this.#reader.readBoolean()
  uuid = (): string => this.#reader.readUUID()
  string = (): string => this.#reader.readString(this.#flexible)
  nullableString = (): string | null => this.#reader.readNullableString(this.#flexible)
  bytes = (): Buffer => Buffer.from(this.#reader.readBytes(this.#flexible))
  /** Of structures. */
  array = <Item>(item: () => Item): Item[] => this.nullableArray(item) ?? []
  int32s = (): number[] => this.#reader.readArray(() => this.int32(), this.#flexible, false)
  nullableArray = <Item>(item: () => Item): Item[] | null =>
    this.#reader.readNullableArray(() => item(), this.#flexible, this.#flexible)
}

export class ResponseBody {
  readonly version: number
  readonly writer: Writer
  readonly #flexible: boolean

  constructor(writer: Writer, { version, flexible }: { version: number; flexible: boolean }) {
    this.version = version
    this.writer = writer
    this.#flexible = flexible
  }

  int8(value: number): this {
    this.writer.appendInt8(value)
    return this
  }

  int16(value: number): this {
    this.writer.appendInt16(value)
    return this
  }

  int32(value: number): this {
    this.writer.appendInt32(value)
    return this
  }

  int64(value: bigint): this {
    this.writer.appendInt64(value)
    return this
  }

  boolean(value: boolean): this {
    this.writer.appendBoolean(value)
    return this
  }

  uuid(value: string): this {
    this.writer.appendUUID(value)
    return this
  }

  string(value: string | null): this {
    this.writer.appendString(value, this.#flexible)
    return this
  }

  bytes(value: Buffer): this {
    this.writer.appendBytes(value, this.#flexible)
    return this
  }

  int32s(values: readonly number[]): this {
    this.writer.appendArray([...values], (writer, value) => writer.appendInt32(value), this.#flexible, false)
    return this
  }

  /** Of structures. */
  array<Item>(items: readonly Item[], write: (item: Item, index: number) => void): this {
    const entry = (_writer: Writer, item: Item, index: number): void => write(item, index)
    this.writer.appendArray([...items], entry, this.#flexible, this.#flexible)
    return this
  }

  /** Ends the response. */
  end(): void {
    if (this.#flexible) this.writer.appendTaggedFields()
  }
}
