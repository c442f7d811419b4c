// What a one-node Kafka for tests is told: loopback only, everything replicated once, small internal topics, no waiting for more
// members when a group is new, and sessions as short as a test wants them.

export interface KafkaListener {
  protocol: 'SASL_SSL' | 'SSL'
  /** Where clients are sent; 127.0.0.1 unless told otherwise. */
  advertisedHost?: string
}

export interface KafkaPorts {
  client: number
  controller: number
  listeners: readonly (KafkaListener & { name: string; port: number })[]
}

/** The text of a `server.properties`; `more` is laid over the defaults. */
export function serverProperties({ client, controller, listeners }: KafkaPorts, more: Record<string, string>): string {
  const open = `PLAINTEXT://127.0.0.1:${client}`
  const bound = listeners.map(({ name, port }) => `${name}://127.0.0.1:${port}`)
  const advertised = listeners.map(
    ({ name, port, advertisedHost = '127.0.0.1' }) => `${name}://${advertisedHost}:${port}`,
  )
  const protocols = listeners.map(({ name, protocol }) => `${name}:${protocol}`)
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${controller}`,
    'controller.listener.names': 'CONTROLLER',
    listeners: [open, ...bound, `CONTROLLER://127.0.0.1:${controller}`].join(),
    'advertised.listeners': [open, ...advertised].join(),
    'listener.security.protocol.map': ['PLAINTEXT:PLAINTEXT', ...protocols, 'CONTROLLER:PLAINTEXT'].join(),
    'offsets.topic.num.partitions': '1',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.num.partitions': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    'group.min.session.timeout.ms': '500',
    // A killed broker may come back only after its session with the controller has run out.
    'broker.session.timeout.ms': '1500',
    'broker.heartbeat.interval.ms': '300',
    'num.partitions': '1',
    'log.cleaner.dedupe.buffer.size': '8388608',
    ...more,
  }
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')
}

/** log4j's configuration: warnings and worse, into `file`. */
export function loggingConfiguration(file: string): string {
  return `<Configuration status="OFF">
  <Appenders>
    <File name="file" fileName="${file}"><PatternLayout pattern="%d %p %c{1} %m%n"/></File>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
`
}
