// The development broker: one node, in memory, speaking as much of Kafka's protocol as `npm start` and the fault tests need. It is no
// Kafka: no replication, no transactions, no security, and everything in it is lost when it stops. Whoever starts it sees to it that
// this happens in local mode and in tests only.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Log } from '../src/base/log.ts'
import { silentLog } from '../src/base/log.ts'
import type { Service } from '../src/base/service.ts'
import { serveConnection } from './broker/connection.ts'
import { Faults } from './broker/faults.ts'
import { Groups } from './broker/groups.ts'
import type { Context } from './broker/requests/context.ts'
import { Topics } from './broker/topics.ts'

export interface DevBrokerOptions {
  /** Taken if it is free, else another one; default: any free one. */
  port?: number
  log?: Log
  /** What one partition holds at most; its oldest records go first. Default 16 MiB. */
  partitionBytes?: number
  /** Of a topic that is made by being mentioned. Default 3. */
  defaultPartitions?: number
}

export interface DevBroker extends Service {
  /** 0 until it has been started. */
  readonly port: number
  /** `host:port`, for KAFKA_BROKERS. */
  readonly address: string
  readonly topics: Topics
  readonly groups: Groups
  readonly faults: Faults
  /** Cuts all connections, as a restart would; what is stored stays, and clients may connect again at once. */
  dropConnections(): void
  /** Cuts them and lets nobody in until `resume`. */
  suspend(): Promise<void>
  resume(): Promise<void>
}

const HOST = '127.0.0.1'
const PARTITION_BYTES = 16 << 20
const DEFAULT_PARTITIONS = 3
const SWEEP_MS = 50

/** A broker that does not listen yet. */
export function createDevBroker(options: DevBrokerOptions = {}): DevBroker {
  return new InMemoryBroker(options)
}

class InMemoryBroker implements DevBroker {
  readonly name = 'development broker'
  readonly topics: Topics
  readonly groups = new Groups()
  readonly faults = new Faults()
  readonly #log: Log
  readonly #sockets = new Set<Socket>()
  readonly #context: Context
  readonly #waiting = new Set<() => void>()
  #server: Server | null = null
  #sweeper: NodeJS.Timeout | undefined
  #port: number

  constructor(options: DevBrokerOptions) {
    this.#log = options.log ?? silentLog
    this.#port = options.port ?? 0
    this.topics = new Topics({
      partitionBytes: options.partitionBytes ?? PARTITION_BYTES,
      defaultPartitions: options.defaultPartitions ?? DEFAULT_PARTITIONS,
    })
    this.#context = {
      topics: this.topics,
      groups: this.groups,
      faults: this.faults,
      host: HOST,
      port: () => this.#port,
      appended: (ms) => this.#appended(ms),
      announce: () => this.#announce(),
    }
  }

  get port(): number {
    return this.#port
  }

  get address(): string {
    return `${HOST}:${this.#port}`
  }

  async start(): Promise<void> {
    await this.resume()
    this.#sweeper = setInterval(() => this.groups.sweep(), SWEEP_MS)
    const what = 'development broker: in memory, on loopback, not Kafka; what is in it is lost when it stops'
    this.#log.warn({ address: this.address }, what)
  }

  async stop(_deadline: AbortSignal): Promise<void> {
    clearInterval(this.#sweeper)
    this.groups.close()
    await this.suspend()
  }

  async resume(): Promise<void> {
    if (this.#server !== null) return
    this.#server = await listen(this.#port, (socket) => this.#serve(socket)).catch(
      async (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE') throw error
        this.#log.warn({ port: this.#port }, 'the port of the development broker is taken: using a free one')
        return listen(0, (socket) => this.#serve(socket))
      },
    )
    this.#port = (this.#server.address() as AddressInfo).port
  }

  async suspend(): Promise<void> {
    const server = this.#server
    this.#server = null
    if (server === null) return
    server.close()
    this.dropConnections()
    await once(server, 'close')
  }

  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#announce()
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.once('close', () => this.#sockets.delete(socket))
    void serveConnection(socket, this.#context, (error) => {
      this.#log.warn({ err: error }, 'the development broker closed a connection that it does not understand')
    })
  }

  async #appended(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, ms)
      this.#waiting.add(wake)
    })
  }

  #announce(): void {
    for (const wake of this.#waiting) wake()
  }
}

async function listen(port: number, onSocket: (socket: Socket) => void): Promise<Server> {
  const server = createServer(onSocket)
  server.listen(port, HOST)
  await once(server, 'listening')
  return server
}
