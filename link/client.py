"""The caller's end of the link: one method for each call, and blobs of any size in chunks."""

import random
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import grpc
from google.protobuf.message import DecodeError

from assay.cluster.v1 import cluster_pb2 as pb
from link import convert
from link import types as t
from link.blobs import BlobStore
from link.envelope import Signer, seal
from link.errors import ClusterError, Kind
from link.methods import METHODS, SERVICE
from link.tls import SERVER_NAME, pem_of

Progress = Callable[[int, int], None]  # bytes done, bytes in all

_FAILURE_KEY = "assay-failure-bin"
_READ_BYTES = 1 << 20


class ClusterClient:
    """Calls one validator. Every call has a deadline; a call that did not get through is repeated.

    Only UNAVAILABLE is repeated (all calls are idempotent), with a new envelope each time, after a
    wait that doubles and is drawn at random below its bound. Safe for several threads.
    """

    def __init__(
        self,
        endpoint: str,
        certificate_der: bytes,
        key: Signer,
        chain_id: str,
        timeout: float = 10.0,
        *,
        tries: int = 4,
    ) -> None:
        """Trust nothing but ``certificate_der``, the certificate that the chain has."""
        self._key = key
        self._chain_id = chain_id
        self._timeout = timeout
        self._tries = tries
        self._audience = sha256(certificate_der).digest()
        self._closed = Event()
        self._channel = grpc.secure_channel(
            endpoint,
            grpc.ssl_channel_credentials(root_certificates=pem_of(certificate_der)),
            options=[
                ("grpc.ssl_target_name_override", SERVER_NAME),
                ("grpc.max_receive_message_length", t.MESSAGE_BYTES_MAX),
                ("grpc.max_send_message_length", t.MESSAGE_BYTES_MAX),
                ("grpc.enable_http_proxy", 0),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 2_000),
            ],
        )
        self._stubs: dict[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {
            name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in METHODS
        }

    def close(self) -> None:
        """Close the connection; calls that wait to be repeated end."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Self:
        """Return the client, to be closed at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()

    # One method for each call

    def stat_blob(self, request: t.StatBlobRequest) -> t.BlobStatus:
        """How much of a blob the validator has."""
        return cast(t.BlobStatus, self._call("StatBlob", request))

    def put_chunk(self, request: t.PutChunkRequest) -> t.BlobStatus:
        """Send bytes of a blob."""
        return cast(t.BlobStatus, self._call("PutChunk", request))

    def get_chunk(self, request: t.GetChunkRequest) -> t.Chunk:
        """Fetch bytes of a blob."""
        return cast(t.Chunk, self._call("GetChunk", request))

    def probe(self, request: t.ProbeRequest) -> t.ProbeReply:
        """Fetch random bytes, to measure the bandwidth."""
        return cast(t.ProbeReply, self._call("Probe", request))

    def join(self, request: t.JoinRequest) -> t.JoinReply:
        """Offer to work."""
        return cast(t.JoinReply, self._call("Join", request))

    def poll(self, request: t.PollRequest) -> t.PollReply:
        """Ask what there is to do."""
        return cast(t.PollReply, self._call("Poll", request))

    def submit_share(self, request: t.ShareSubmission) -> t.Verdict:
        """Hand a share in."""
        return cast(t.Verdict, self._call("SubmitShare", request))

    def submit_opening(self, request: t.OpeningSubmission) -> t.Verdict:
        """Hand the states at a boundary in."""
        return cast(t.Verdict, self._call("SubmitOpening", request))

    def offer_payload(self, request: t.PayloadOffer) -> t.PayloadWanted:
        """Offer the files of a job."""
        return cast(t.PayloadWanted, self._call("OfferPayload", request))

    def payload_status(self, request: t.PayloadStatusRequest) -> t.PayloadState:
        """Ask whether the job is there and loads."""
        return cast(t.PayloadState, self._call("PayloadStatus", request))

    def get_opening(self, request: t.OpeningRequest) -> t.AuditOpening:
        """Ask for what replay of a place needs."""
        return cast(t.AuditOpening, self._call("GetOpening", request))

    def get_result(self, request: t.ResultRequest) -> t.ResultManifest:
        """Ask for a page of the result's leaves."""
        return cast(t.ResultManifest, self._call("GetResult", request))

    def whole_result(self, order_id: bytes, count: int | None = None) -> t.ResultManifest:
        """Return the manifest with all leaves, page after page; BAD_REPLY where they are not ``count``.

        Whoever knows the number says it: a hostile validator may claim any.
        """
        manifest = self.get_result(t.ResultRequest(order_id, 0, t.RESULT_LEAVES_MAX))
        if count not in (None, manifest.count):
            raise ClusterError(
                Kind.BAD_REPLY, f"a result of {manifest.count} leaves instead of {count}"
            )
        leaves = list(manifest.leaves)
        while len(leaves) < manifest.count:
            page = self.get_result(t.ResultRequest(order_id, len(leaves), t.RESULT_LEAVES_MAX))
            full = len(page.leaves) == min(t.RESULT_LEAVES_MAX, manifest.count - len(leaves))
            if not full or replace(page, leaves=()) != replace(manifest, leaves=()):
                raise ClusterError(Kind.BAD_REPLY, "the result's pages do not fit together")
            leaves += page.leaves
        # Not a message any more, so the bound on its leaves does not hold here.
        return replace(manifest, leaves=tuple(leaves))

    # Blobs

    def put_blob(self, source: Path | bytes, progress: Progress | None = None) -> t.BlobRef:
        """Send a blob, from where an earlier try stopped; return its name."""
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            blob = _ref_of(file)
            status = self.stat_blob(t.StatBlobRequest(blob))
            while not status.complete:
                if progress:
                    progress(status.held, blob.size)
                file.seek(status.held)
                data = file.read(t.CHUNK_BYTES_MAX)
                if not data:  # all was sent and the blob is not complete: sent from two places
                    raise ClusterError(Kind.BAD_REPLY, "the validator has all and lacks some")
                status = self.put_chunk(t.PutChunkRequest(blob, status.held, data))
        if progress:
            progress(blob.size, blob.size)
        return blob

    def get_blob(self, blob: t.BlobRef, path: Path, progress: Progress | None = None) -> None:
        """Fetch a blob into ``path``, from where an earlier try stopped; verified, then renamed."""
        partial = path.with_name(path.name + ".part")
        with partial.open("ab") as file:
            while (held := file.tell()) < blob.size:
                if progress:
                    progress(held, blob.size)
                file.write(self._next(blob, held))
            file.flush()
        with partial.open("rb") as file:
            if _ref_of(file) != blob:
                partial.unlink()
                raise ClusterError(
                    Kind.WRONG_CONTENT, "the validator's bytes do not hash to the name", "try again"
                )
        partial.replace(path)
        if progress:
            progress(blob.size, blob.size)

    def get_bytes(self, blob: t.BlobRef) -> bytes:
        """Fetch a small blob into memory, verified."""
        parts = bytearray()
        while len(parts) < blob.size:
            parts += self._next(blob, len(parts))
        if sha256(parts).digest() != blob.sha256:
            raise ClusterError(
                Kind.WRONG_CONTENT, "the validator's bytes do not hash to the name", "try again"
            )
        return bytes(parts)

    def fetch(self, blob: t.BlobRef, store: BlobStore, progress: Progress | None = None) -> None:
        """Fetch a blob into a store of this machine, from where an earlier try stopped."""
        status = store.status(blob)
        while not status.complete:
            if progress:
                progress(status.held, blob.size)
            status = store.put(blob, status.held, self._next(blob, status.held))

    def _next(self, blob: t.BlobRef, offset: int) -> bytes:
        length = min(t.CHUNK_BYTES_MAX, blob.size - offset)
        chunk = self.get_chunk(t.GetChunkRequest(blob.sha256, offset, length))
        if not 0 < len(chunk.data) <= length or chunk.size != blob.size:
            raise ClusterError(Kind.BAD_REPLY, "a chunk is empty, too long or of another size")
        return chunk.data

    # One call

    def _call(self, name: str, request: Any) -> Any:
        method = METHODS[name]
        body = convert.to_wire(method.request_proto, request).SerializeToString()
        for number in range(self._tries):
            try:
                raw = self._stubs[name](self._signed(name, body), timeout=self._timeout)
            except grpc.RpcError as error:
                failure = _failure(error)
                if failure.kind is not Kind.UNREACHABLE or number + 1 == self._tries:
                    raise failure from None
                # Full jitter, so that callers whose server came back do not come all at once.
                if self._closed.wait(random.uniform(0, min(2.0, 0.1 * 2**number))):
                    raise failure from None
                continue
            except ValueError:  # grpc's word for a closed channel
                raise ClusterError(
                    Kind.UNREACHABLE, "the connection was closed", "open a new one"
                ) from None
            reply = method.reply_proto()
            try:
                reply.ParseFromString(raw)
                return convert.from_wire(method.reply, reply)
            except (DecodeError, ClusterError) as error:
                raise ClusterError(Kind.BAD_REPLY, f"the validator's answer: {error}") from None
        raise AssertionError("the last try returns or raises")

    def _signed(self, name: str, body: bytes) -> bytes:
        envelope = seal(self._key, self._chain_id, self._audience, name, body)
        request = pb.SignedRequest(body=body)
        request.envelope.CopyFrom(cast(pb.Envelope, convert.to_wire(pb.Envelope, envelope)))
        return request.SerializeToString()


def _failure(error: grpc.RpcError) -> ClusterError:
    call = cast(grpc.Call, error)
    for key, value in call.trailing_metadata() or ():
        if key == _FAILURE_KEY and isinstance(value, bytes):
            return _typed(value)
    code, details = call.code(), call.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        return ClusterError(Kind.UNREACHABLE, f"no connection ({details[:200]})", "try again later")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return ClusterError(Kind.TIMED_OUT, "no answer in time", "try again")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        kind = Kind.TOO_LARGE if "larger than max" in details else Kind.BUSY
        return ClusterError(kind, details[:200], "try again later" if kind is Kind.BUSY else "")
    return ClusterError(Kind.BAD_REPLY, f"{code}: {details[:200]}")


def _typed(value: bytes) -> ClusterError:
    failure = pb.Failure()
    try:
        failure.ParseFromString(value)
        return ClusterError(Kind(failure.kind), failure.reason, failure.remedy, field=failure.field)
    except (DecodeError, ValueError):
        return ClusterError(Kind.BAD_REPLY, "a failure that does not parse")


def _ref_of(file: BinaryIO) -> t.BlobRef:
    digest, size = sha256(), 0
    file.seek(0)
    while part := file.read(_READ_BYTES):
        digest.update(part)
        size += len(part)
    return t.BlobRef(digest.digest(), size)
