// Requests to Kafka brokers: @platformatic/kafka gives the connections (TLS, SASL), the codecs and the choice of a version that the
// broker speaks. Its consumer is not used: it commits offsets of partitions that it no longer owns, and one sick topic stops it.
// A broker answers the requests of one connection one by one, so a request that waits at the broker (a fetch, a join) holds up what
// comes behind it: there is one wire for each kind of request.
import { isIP } from 'node:net'
import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { Base, kGetApi, parseBroker } from '@platformatic/kafka'
import type { API, Broker, SASLOptions } from '@platformatic/kafka'
import type { KafkaRequests } from './requests.ts'
import type { WayIn } from './unreachable.ts'

export interface KafkaConnection {
  /** `host:port`. */
  brokers: readonly string[]
  /** Names this process in the broker's logs and quotas. */
  clientId: string
  sasl?: SASLOptions | undefined
  /** TLS is used where this is given, however empty. */
  tls?: TlsOptions | undefined
}

export class Wire {
  readonly wayIn: Omit<WayIn, 'proven'>
  readonly #client: Base

  /** A request that is not answered after `timeoutMs` fails, and its connection is closed. */
  constructor(connection: KafkaConnection, timeoutMs: number) {
    this.wayIn = { tls: connection.tls !== undefined, login: connection.sasl !== undefined }
    this.#client = new Base({
      clientId: connection.clientId,
      bootstrapBrokers: [...connection.brokers],
      retries: 0,
      requestTimeout: timeoutMs,
      // TLS knows no server name that is an address.
      tlsServerName: connection.brokers.every((broker) => isIP(parseBroker(broker).host) === 0),
      ...(connection.sasl && { sasl: connection.sasl }),
      ...(connection.tls && { tls: connection.tls }),
    })
    // A second error of one connection would find no listener, and end the process.
    this.#client.connections.on('connecting', (started) => started.connection.on('error', () => undefined))
  }

  /** Asks `broker`, in the newest version of the request that both sides know. Rejects also for an error code in the response. */
  async call<Name extends keyof KafkaRequests>(
    broker: Broker,
    name: Name,
    request: KafkaRequests[Name]['request'],
  ): Promise<KafkaRequests[Name]['response']> {
    return this.send(broker, await this.api(name), request)
  }

  /** As `call`, of the first one of `brokers` that can be reached. */
  async callAny<Name extends keyof KafkaRequests>(
    brokers: Broker[],
    name: Name,
    request: KafkaRequests[Name]['request'],
  ): Promise<KafkaRequests[Name]['response']> {
    const api = await this.api(name)
    return api.async(await this.#client.connections.getFirstAvailable(brokers), ...request)
  }

  /** Asks `broker` by a codec of our own. */
  async send<Request extends unknown[], Response>(
    broker: Broker,
    api: API<Request, Response>,
    request: Request,
  ): Promise<Response> {
    return api.async(await this.#client.connections.get(broker), ...request)
  }

  /** The codec of the newest version that both sides know. */
  async api<Name extends keyof KafkaRequests>(
    name: Name,
  ): Promise<API<KafkaRequests[Name]['request'], KafkaRequests[Name]['response']>> {
    return new Promise((resolve, reject) => {
      this.#client[kGetApi]<KafkaRequests[Name]['request'], KafkaRequests[Name]['response']>(name, (error, api) => {
        if (error !== null || api === undefined) reject(error ?? new Error(`The broker does not serve ${name}`))
        else resolve(api)
      })
    })
  }

  /** Requests in the air are rejected. */
  async close(): Promise<void> {
    await this.#client.close()
  }
}
