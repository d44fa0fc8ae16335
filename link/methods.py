"""The calls of the link in one table, which client and server share."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from assay.cluster.v1 import cluster_pb2 as pb
from link import types as t

SERVICE = "assay.cluster.v1.Cluster"
_ANY = frozenset(t.Role)
_PROVIDER = frozenset({t.Role.PROVIDER})
_CONSUMER = frozenset({t.Role.CONSUMER})


@dataclass(frozen=True, slots=True)
class Method:
    """A call: its messages, who may make it (empty: anybody who signs), and who answers it."""

    name: str
    request: type[Any]
    request_proto: type[Message]
    reply: type[Any]
    reply_proto: type[Message]
    roles: frozenset[t.Role]
    handler: str  # attribute of Handlers; empty: the server answers itself


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("StatBlob", t.StatBlobRequest, pb.StatBlobRequest,
               t.BlobStatus, pb.BlobStatus, _ANY, "stat_blob"),
        Method("PutChunk", t.PutChunkRequest, pb.PutChunkRequest,
               t.BlobStatus, pb.BlobStatus, _PROVIDER | _CONSUMER, "put_chunk"),
        Method("GetChunk", t.GetChunkRequest, pb.GetChunkRequest,
               t.Chunk, pb.Chunk, _ANY, "get_chunk"),
        Method("Probe", t.ProbeRequest, pb.ProbeRequest,
               t.ProbeReply, pb.ProbeReply, frozenset(), ""),
        Method("Join", t.JoinRequest, pb.JoinRequest,
               t.JoinReply, pb.JoinReply, _PROVIDER, "join"),
        Method("Poll", t.PollRequest, pb.PollRequest,
               t.PollReply, pb.PollReply, _PROVIDER, "poll"),
        Method("SubmitShare", t.ShareSubmission, pb.ShareSubmission,
               t.Verdict, pb.Verdict, _PROVIDER, "submit_share"),
        Method("SubmitOpening", t.OpeningSubmission, pb.OpeningSubmission,
               t.Verdict, pb.Verdict, _PROVIDER, "submit_opening"),
        Method("OfferPayload", t.PayloadOffer, pb.PayloadOffer,
               t.PayloadWanted, pb.PayloadWanted, _CONSUMER, "offer_payload"),
        Method("PayloadStatus", t.PayloadStatusRequest, pb.PayloadStatusRequest,
               t.PayloadState, pb.PayloadState, _CONSUMER, "payload_status"),
        Method("GetOpening", t.OpeningRequest, pb.OpeningRequest,
               t.AuditOpening, pb.AuditOpening, frozenset({t.Role.AUDITOR}), "get_opening"),
        Method("GetResult", t.ResultRequest, pb.ResultRequest,
               t.ResultManifest, pb.ResultManifest, _CONSUMER, "get_result"),
    )
}  # fmt: skip
