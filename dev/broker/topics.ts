// The broker's topics: made by request, by the first mention where a client allows that, or by a test; each with an id of its own,
// so that a topic made anew under an old name is told apart.
import { randomUUID } from 'node:crypto'
import { PartitionLog } from './log.ts'

export interface Topic {
  name: string
  id: string
  partitions: PartitionLog[]
}

const LEGAL_NAME = /^[a-zA-Z0-9._-]{1,249}$/

export class Topics {
  readonly #topics = new Map<string, Topic>()
  readonly #partitionBytes: number
  readonly #defaultPartitions: number

  constructor(options: { partitionBytes: number; defaultPartitions: number }) {
    this.#partitionBytes = options.partitionBytes
    this.#defaultPartitions = options.defaultPartitions
  }

  all(): Topic[] {
    return [...this.#topics.values()]
  }

  get(name: string): Topic | undefined {
    return this.#topics.get(name)
  }

  byId(id: string): Topic | undefined {
    return this.all().find((topic) => topic.id === id)
  }

  log(name: string, partition: number): PartitionLog | undefined {
    return this.#topics.get(name)?.partitions[partition]
  }

  isLegal(name: string): boolean {
    return LEGAL_NAME.test(name)
  }

  /** The topic, made now where there is none. `partitions` below 1 stands for the default number. */
  create(name: string, partitions: number = this.#defaultPartitions): Topic {
    const known = this.#topics.get(name)
    if (known !== undefined) return known
    const topic: Topic = { name, id: randomUUID(), partitions: [] }
    this.#topics.set(name, topic)
    this.grow(name, partitions < 1 ? this.#defaultPartitions : partitions)
    return topic
  }

  /** Adds partitions until there are `count`. */
  grow(name: string, count: number): void {
    const partitions = this.#topics.get(name)?.partitions ?? []
    for (let next = partitions.length; next < count; next++) partitions.push(new PartitionLog(this.#partitionBytes))
  }

  delete(name: string): boolean {
    return this.#topics.delete(name)
  }
}
