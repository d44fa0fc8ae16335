"""The caller's end of the link: one method for all calls, blobs in chunks, and connections that are kept."""

import random
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import BinaryIO, Self, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError

from assay.cluster.v1 import cluster_pb2 as pb
from domain.registry.records import Validator
from link import types as t
from link.blobs import BlobStore
from link.calls import SERVICE, Call, decode_newer, encode
from link.envelope import SignedRequest, Signer, seal
from link.errors import ClusterError, ClusterErrorKind
from link.tls import SERVER_NAME, pem_of

Q = TypeVar("Q")
R = TypeVar("R")
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
            name: self._channel.unary_unary(f"/{SERVICE}/{name}") for name in (call.name for call in t.CALLS)
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

    def call(self, call: Call[Q, R], request: Q) -> R:
        """Make a call and return its answer; ClusterError says by its kind what went wrong, and names the field."""
        body = encode(request)
        for number in range(self._tries):
            try:
                raw = self._stubs[call.name](self._signed(call.name, body), timeout=self._timeout)
            except grpc.RpcError as error:
                failure = _failure(error)
                if failure.kind is not ClusterErrorKind.UNREACHABLE or number + 1 == self._tries:
                    raise failure from None
                # Full jitter, so that callers whose server came back do not come all at once.
                if self._closed.wait(random.uniform(0, min(2.0, 0.1 * 2**number))):
                    raise failure from None
                continue
            except ValueError:  # grpc's word for a closed channel
                raise ClusterError(
                    ClusterErrorKind.UNREACHABLE, "the connection was closed", "open a new one"
                ) from None
            try:
                return decode_newer(call.reply, raw)
            except ClusterError as error:
                raise ClusterError(ClusterErrorKind.BAD_REPLY, f"the validator's answer: {error}") from None
        raise AssertionError("the last try returns or raises")

    def _signed(self, name: str, body: bytes) -> bytes:
        return encode(SignedRequest(seal(self._key, self._chain_id, self._audience, name, body), body))

    # Results

    def whole_result(self, order_id: bytes, round: int, count: int | None = None) -> t.ResultManifest:
        """Return the manifest of a round with all leaves, page after page; BAD_REPLY where they are not ``count``.

        Whoever knows the number says it: a hostile validator may claim any.
        """
        manifest = self.call(
            t.GET_RESULT,
            t.ResultRequest(order_id=order_id, round=round, first=0, limit=t.RESULT_LEAVES_MAX),
        )
        if count not in (None, manifest.count):
            raise ClusterError(
                ClusterErrorKind.BAD_REPLY,
                f"a result of {manifest.count} leaves instead of {count}",
            )
        leaves = list(manifest.leaves)
        while len(leaves) < manifest.count:
            page = self.call(
                t.GET_RESULT,
                t.ResultRequest(order_id=order_id, round=round, first=len(leaves), limit=t.RESULT_LEAVES_MAX),
            )
            full = len(page.leaves) == min(t.RESULT_LEAVES_MAX, manifest.count - len(leaves))
            if not full or replace(page, leaves=()) != replace(manifest, leaves=()):
                raise ClusterError(ClusterErrorKind.BAD_REPLY, "the result's pages do not fit together")
            leaves += page.leaves
        # Not a message any more, so the bound on its leaves does not hold here.
        return replace(manifest, leaves=tuple(leaves))

    # Blobs

    def put_blob(self, source: Path | bytes, progress: Progress | None = None) -> t.BlobRef:
        """Send a blob, from where an earlier try stopped; return its name."""
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            blob = _ref_of(file)
            status = self.call(t.STAT_BLOB, t.StatBlobRequest(blob))
            while not status.complete:
                if progress:
                    progress(status.held, blob.size)
                file.seek(status.held)
                data = file.read(t.CHUNK_BYTES_MAX)
                if not data:  # all was sent and the blob is not complete: sent from two places
                    raise ClusterError(ClusterErrorKind.BAD_REPLY, "the validator has all and lacks some")
                status = self.call(t.PUT_CHUNK, t.PutChunkRequest(blob, status.held, data))
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
                    ClusterErrorKind.WRONG_CONTENT,
                    "the validator's bytes do not hash to the name",
                    "try again",
                )
        partial.replace(path)
        if progress:
            progress(blob.size, blob.size)

    def fetch(self, blob: t.BlobRef, store: BlobStore, progress: Progress | None = None) -> None:
        """Fetch a blob into a store of this machine, from where an earlier try stopped."""
        status = store.status(blob)
        while not status.complete:
            if progress:
                progress(status.held, blob.size)
            status = store.put(blob, status.held, self._next(blob, status.held))

    def _next(self, blob: t.BlobRef, offset: int) -> bytes:
        length = min(t.CHUNK_BYTES_MAX, blob.size - offset)
        chunk = self.call(t.GET_CHUNK, t.GetChunkRequest(blob.sha256, offset, length))
        if not 0 < len(chunk.data) <= length or chunk.size != blob.size:
            raise ClusterError(ClusterErrorKind.BAD_REPLY, "a chunk is empty, too long or of another size")
        return chunk.data


def _failure(error: grpc.RpcError) -> ClusterError:
    call = cast(grpc.Call, error)
    for key, value in call.trailing_metadata() or ():
        if key == _FAILURE_KEY and isinstance(value, bytes):
            return _typed(value)
    code, details = call.code(), call.details() or ""
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        # Cancelled: the connection was closed here, or the server had to give the call's place to somebody else.
        return ClusterError(ClusterErrorKind.UNREACHABLE, f"no connection ({details[:200]})", "try again later")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return ClusterError(ClusterErrorKind.TIMED_OUT, "no answer in time", "try again")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        kind = ClusterErrorKind.TOO_LARGE if "larger than max" in details else ClusterErrorKind.BUSY
        return ClusterError(kind, details[:200], "try again later" if kind is ClusterErrorKind.BUSY else "")
    return ClusterError(ClusterErrorKind.BAD_REPLY, f"{code}: {details[:200]}")


def _typed(value: bytes) -> ClusterError:
    failure = pb.Failure()
    try:
        failure.ParseFromString(value)
        return ClusterError(ClusterErrorKind(failure.kind), failure.reason, failure.remedy, field=failure.field)
    except (DecodeError, ValueError):
        return ClusterError(ClusterErrorKind.BAD_REPLY, "a failure that does not parse")


def _ref_of(file: BinaryIO) -> t.BlobRef:
    digest, size = sha256(), 0
    file.seek(0)
    while part := file.read(_READ_BYTES):
        digest.update(part)
        size += len(part)
    return t.BlobRef(digest.digest(), size)


# --- connections to validators, to where the chain says they are now -----------------------------


def connect(validator: Validator, key: Signer, chain_id: str) -> ClusterClient:
    """Return a client that trusts exactly the certificate on chain; ClusterError where nothing is published there."""
    if not validator.endpoint or not validator.certificate:
        raise ClusterError(
            ClusterErrorKind.UNREACHABLE,
            f"validator {validator.moniker or validator.operator} has published no endpoint",
            "try again when its daemon runs",
        )
    return ClusterClient(validator.endpoint, validator.certificate, key, chain_id)


class Connections:
    """One connection to each validator; one that has moved gets a new one. Thread-safe."""

    def __init__(self, key: Signer) -> None:
        """Call others as ``key``."""
        self._key = key
        self._lock = Lock()
        self._clients: dict[str, tuple[str, bytes, ClusterClient]] = {}
        self._closed = False

    def client(self, validator: Validator, chain_id: str) -> ClusterClient:
        """Return the kept client, or a new one; ClusterError where no endpoint is published or all is closed."""
        where = (validator.endpoint, validator.certificate)
        with self._lock:
            if self._closed:
                raise ClusterError(ClusterErrorKind.UNREACHABLE, "the connections are closed")
            known = self._clients.get(validator.operator)
            if known is not None and known[:2] == where:
                return known[2]
            client = connect(validator, self._key, chain_id)
            if known is not None:
                known[2].close()
            self._clients[validator.operator] = (*where, client)
            return client

    def close(self) -> None:
        """Close all connections for good; calls under way end."""
        with self._lock:
            self._closed = True
            for _, _, client in self._clients.values():
                client.close()
            self._clients.clear()
