// Brings Apache Kafka's jars onto this machine once, by their Maven coordinates, into the git-ignored `.cache/kafka/<version>`.
// Needs `java` (17 or newer) and, the first time, `mvn`. Two processes may install at once: each works in a folder of its own and
// the first one to finish wins.
import { execFile } from 'node:child_process'
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export const KAFKA_VERSION = '4.1.1'
const LOGGING_VERSION = '2.24.3'
const LEAST_JAVA = 17
const CACHE = resolve(import.meta.dirname, '../../.cache/kafka')

export interface KafkaInstallation {
  /** What java's `-cp` takes. */
  classPath: string
  /** The folder that belongs to this version; a formatted storage is kept beside the jars. */
  folder: string
}

/** The jars' place, fetched first where they are missing. Rejects with one sentence that says what to install. */
export async function installKafka(): Promise<KafkaInstallation> {
  await requireJava()
  const folder = join(CACHE, KAFKA_VERSION)
  if (!(await exists(folder))) await fetchJars(folder)
  return { folder, classPath: join(folder, 'libs', '*') }
}

async function requireJava(): Promise<void> {
  const answer = await run('java', ['-version']).catch(() => {
    throw new Error(`Kafka needs Java ${LEAST_JAVA} or newer, and there is no "java" on PATH.`)
  })
  const version = Number(/version "(\d+)/.exec(answer.stderr + answer.stdout)?.[1] ?? 0)
  if (version < LEAST_JAVA) throw new Error(`Kafka needs Java ${LEAST_JAVA} or newer; "java" on PATH is ${version}.`)
}

async function fetchJars(folder: string): Promise<void> {
  await mkdir(CACHE, { recursive: true })
  const work = await mkdtemp(join(CACHE, 'fetching-'))
  try {
    await writeFile(join(work, 'pom.xml'), POM)
    await run('mvn', MAVEN_ARGUMENTS, { cwd: work }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') throw new Error('Kafka is fetched by Maven, and there is no "mvn" on PATH.')
      throw new Error(`Maven could not fetch Kafka ${KAFKA_VERSION}: ${error.message}`, { cause: error })
    })
    await rename(work, folder).catch(async (error: unknown) => {
      if (!(await exists(folder))) throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

const MAVEN_ARGUMENTS = ['-q', '-B', 'dependency:copy-dependencies', '-DincludeScope=runtime', '-DoutputDirectory=libs']

// Kafka's own artefact names no logging backend: log4j's is added, so that a broker that does not start can say why.
const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>${KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>${LOGGING_VERSION}</version>
    </dependency>
  </dependencies>
</project>
`
