// The requests that the stream makes, with what goes out and what comes back. The library's newest version stands for all: it fills
// in what an older one lacks, except where this says otherwise.
import type {
  describeConfigsV4,
  fetchV17,
  findCoordinatorV6,
  heartbeatV4,
  joinGroupV9,
  leaveGroupV5,
} from '@platformatic/kafka'
import type { listOffsetsV9, metadataV12, offsetCommitV9, offsetFetchV9, syncGroupV5 } from '@platformatic/kafka'

export interface KafkaRequests {
  DescribeConfigs: {
    request: describeConfigsV4.DescribeConfigsRequest
    response: describeConfigsV4.DescribeConfigsResponse
  }
  Fetch: { request: fetchV17.FetchRequest; response: fetchV17.FetchResponse }
  FindCoordinator: {
    request: findCoordinatorV6.FindCoordinatorRequest
    response: Pick<findCoordinatorV6.FindCoordinatorResponse, 'coordinators'>
  }
  Heartbeat: { request: heartbeatV4.HeartbeatRequest; response: heartbeatV4.HeartbeatResponse }
  JoinGroup: { request: joinGroupV9.JoinGroupRequest; response: joinGroupV9.JoinGroupResponse }
  LeaveGroup: { request: leaveGroupV5.LeaveGroupRequest; response: leaveGroupV5.LeaveGroupResponse }
  ListOffsets: { request: listOffsetsV9.ListOffsetsRequest; response: listOffsetsV9.ListOffsetsResponse }
  Metadata: { request: metadataV12.MetadataRequest; response: metadataV12.MetadataResponse }
  OffsetCommit: { request: offsetCommitV9.OffsetCommitRequest; response: offsetCommitV9.OffsetCommitResponse }
  OffsetFetch: {
    request: offsetFetchV9.OffsetFetchRequest
    /** Before version 8 it is about one group, without saying so. */
    response: Partial<offsetFetchV9.OffsetFetchResponse> & { topics?: offsetFetchV9.OffsetFetchResponseTopic[] }
  }
  SyncGroup: { request: syncGroupV5.SyncGroupRequest; response: syncGroupV5.SyncGroupResponse }
}
