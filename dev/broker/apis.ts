// Which requests are served, and in which versions: enough for this project's own client, and for producers and consumers of the Java
// client and librdkafka. What is missing most: transactions, and the newer consumer group protocol.
import { errorCode, type Serve } from './requests/context.ts'
import { fetch } from './requests/fetch.ts'
import { heartbeat, joinGroup, leaveGroup, syncGroup } from './requests/groups.ts'
import { findCoordinator, metadata } from './requests/metadata.ts'
import { listOffsets, offsetCommit, offsetFetch } from './requests/offsets.ts'
import { produce } from './requests/produce.ts'
import { createTopics, deleteTopics, initProducerId } from './requests/topics.ts'

export interface Api {
  least: number
  most: number
  /** The first version in the flexible format; absent: none of those served is. */
  flexibleFrom?: number
  serve: Serve
}

/** The one request whose response header keeps the old form, so that every client can read it. */
export const API_VERSIONS = 18

const apiVersions: Serve = async () => (response) => {
  response.int16(errorCode.NONE)
  response.array([...apis], ([key, { least, most }]) => response.int16(key).int16(least).int16(most))
  if (response.version >= 1) response.int32(0)
}

export const apis: ReadonlyMap<number, Api> = new Map([
  [0, { least: 3, most: 8, serve: produce }],
  [1, { least: 4, most: 13, flexibleFrom: 12, serve: fetch }],
  [2, { least: 2, most: 5, serve: listOffsets }],
  [3, { least: 4, most: 12, flexibleFrom: 9, serve: metadata }],
  [8, { least: 7, most: 8, flexibleFrom: 8, serve: offsetCommit }],
  [9, { least: 5, most: 5, serve: offsetFetch }],
  [10, { least: 1, most: 2, serve: findCoordinator }],
  [11, { least: 5, most: 5, serve: joinGroup }],
  [12, { least: 3, most: 3, serve: heartbeat }],
  [13, { least: 1, most: 1, serve: leaveGroup }],
  [14, { least: 3, most: 3, serve: syncGroup }],
  [API_VERSIONS, { least: 0, most: 3, flexibleFrom: 3, serve: apiVersions }],
  [19, { least: 2, most: 4, serve: createTopics }],
  [20, { least: 1, most: 3, serve: deleteTopics }],
  [22, { least: 0, most: 1, serve: initProducerId }],
])
