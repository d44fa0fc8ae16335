"""The caller's end of the link: one method for all calls, blobs in chunks, and a cache of connections."""

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
Progress = Callable[[int, int], None]  # called with the bytes done and the total

_FAILURE_KEY = "assay-failure-bin"
_READ_BYTES = 1 << 20


class ClusterClient:
    """A client of one validator. Each call has a deadline; a call that did not reach the validator is repeated.

    Only calls that failed with UNAVAILABLE are repeated, each time with a new envelope. This is safe, because all calls
    are idempotent. The wait before a repetition is random, and its bounds double each time. Several threads may use one
    client.
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
        """Connect to ``endpoint``, and trust only the certificate on chain, ``certificate_der``.

        ``timeout`` is the deadline of each try in seconds, and ``tries`` the largest number of tries per call.
        """
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
        """Close the connection; calls that wait for their repetition end."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Self:
        """Return the client; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()

    def call(self, call: Call[Q, R], request: Q, timeout: float | None = None) -> R:
        """Make a call and return its answer; a ClusterError has the kind of failure and the field at fault.

        ``timeout`` is the deadline of each try in seconds, if it is not the client's own.
        """
        body = encode(request)
        for number in range(self._tries):
            try:
                raw = self._stubs[call.name](self._signed(call.name, body), timeout=timeout or self._timeout)
            except grpc.RpcError as error:
                failure = _failure(error)
                if failure.kind is not ClusterErrorKind.UNREACHABLE or number + 1 == self._tries:
                    raise failure from None
                # The wait is random so that not all callers come at once after a server's restart. It has a least time,
                # because gRPC waits before it connects again, and refuses all calls until then.
                bound = min(2.0, 0.1 * 2**number)
                if self._closed.wait(random.uniform(bound / 2, bound)):
                    raise failure from None
                continue
            except ValueError:  # grpc raises it for a closed channel
                raise ClusterError(ClusterErrorKind.UNREACHABLE, "the connection is closed", "open a new one") from None
            try:
                return decode_newer(call.reply, raw)
            except ClusterError as error:
                raise ClusterError(ClusterErrorKind.BAD_REPLY, f"the validator's answer is wrong: {error}") from None
        raise AssertionError("the last try returns or raises")

    def _signed(self, name: str, body: bytes) -> bytes:
        return encode(SignedRequest(seal(self._key, self._chain_id, self._audience, name, body), body))

    # Results

    def whole_result(self, order_id: bytes, round: int, count: int | None = None) -> t.ResultManifest:
        """Return the manifest of a round's result, with the leaves of all pages joined.

        If the number of leaves is not ``count``, raise BAD_REPLY. A caller that knows the number passes it, because a
        hostile validator may claim any number.
        """
        manifest = self.call(
            t.GET_RESULT,
            t.ResultRequest(order_id=order_id, round=round, first=0, limit=t.RESULT_LEAVES_MAX),
        )
        if count not in (None, manifest.count):
            raise ClusterError(
                ClusterErrorKind.BAD_REPLY,
                f"the result has {manifest.count} leaves instead of {count}",
            )
        leaves = list(manifest.leaves)
        while len(leaves) < manifest.count:
            page = self.call(
                t.GET_RESULT,
                t.ResultRequest(order_id=order_id, round=round, first=len(leaves), limit=t.RESULT_LEAVES_MAX),
            )
            full = len(page.leaves) == min(t.RESULT_LEAVES_MAX, manifest.count - len(leaves))
            if not full or replace(page, leaves=()) != replace(manifest, leaves=()):
                raise ClusterError(ClusterErrorKind.BAD_REPLY, "the pages of the answer are of different results")
            leaves += page.leaves
        # The joined manifest is no message, so the bound on the number of leaves does not apply.
        return replace(manifest, leaves=tuple(leaves))

    # Blobs

    def put_blob(self, source: Path | bytes, progress: Progress | None = None) -> t.BlobRef:
        """Send a blob, continuing an earlier try, and return its reference."""
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            blob = _ref_of(file)
            status = self.call(t.STAT_BLOB, t.StatBlobRequest(blob))
            while not status.complete:
                if progress:
                    progress(status.held, blob.size)
                file.seek(status.held)
                data = file.read(t.CHUNK_BYTES_MAX)
                if not data:  # two callers sent the same blob, so all bytes are sent and the blob is not complete
                    reason = "the validator has all bytes of the blob, but reports it incomplete"
                    raise ClusterError(ClusterErrorKind.BAD_REPLY, reason)
                status = self.call(t.PUT_CHUNK, t.PutChunkRequest(blob, status.held, data))
        if progress:
            progress(blob.size, blob.size)
        return blob

    def get_blob(
        self,
        blob: t.BlobRef,
        path: Path,
        progress: Progress | None = None,
        take: Callable[[bytes], None] | None = None,
    ) -> None:
        """Fetch a blob into the file ``path``, and continue an earlier try if there was one.

        The bytes are collected in another file, which gets the name ``path`` after they are verified. ``take`` is
        called with all bytes in order, piece by piece, as they arrive. If ``take`` raises a ClusterError of the kind
        WRONG_CONTENT, the bytes are dropped, so that the next try fetches them again.
        """
        partial = path.with_name(path.name + ".part")
        try:
            self._complete(blob, partial, progress, take)
        except ClusterError as error:
            if error.kind is ClusterErrorKind.WRONG_CONTENT:
                partial.unlink()
            raise
        with partial.open("rb") as file:
            if _ref_of(file) != blob:
                partial.unlink()
                raise ClusterError(
                    ClusterErrorKind.WRONG_CONTENT,
                    "the bytes from the validator do not have the blob's hash",
                    "try again",
                )
        partial.replace(path)
        if progress:
            progress(blob.size, blob.size)

    def _complete(
        self, blob: t.BlobRef, partial: Path, progress: Progress | None, take: Callable[[bytes], None] | None
    ) -> None:
        """Append the missing bytes of a blob to a file, and call ``take`` with all bytes of the file."""
        if take and partial.exists():
            with partial.open("rb") as file:
                while data := file.read(_READ_BYTES):
                    take(data)
        with partial.open("ab") as file:
            while (received := file.tell()) < blob.size:
                if progress:
                    progress(received, blob.size)
                data = self._next(blob, received)
                file.write(data)
                if take:
                    take(data)

    def fetch(
        self,
        blob: t.BlobRef,
        store: BlobStore,
        progress: Progress | None = None,
        owner: str = "",
        timeout: float | None = None,
    ) -> None:
        """Fetch a blob into a store of this machine, continuing an earlier try.

        The bytes are collected under the name ``owner``. So the bytes from one source cannot spoil those from another
        source. ``timeout`` is the deadline of each try of a call in seconds, if it is not the client's own.
        """
        status = store.status(blob, owner)
        while not status.complete:
            if progress:
                progress(status.held, blob.size)
            status = store.put(blob, status.held, self._next(blob, status.held, timeout), owner)

    def _next(self, blob: t.BlobRef, offset: int, timeout: float | None = None) -> bytes:
        length = min(t.CHUNK_BYTES_MAX, blob.size - offset)
        chunk = self.call(t.GET_CHUNK, t.GetChunkRequest(blob.sha256, offset, length), timeout)
        if not 0 < len(chunk.data) <= length or chunk.size != blob.size:
            raise ClusterError(ClusterErrorKind.BAD_REPLY, "a chunk is empty, too long, or of a blob of another size")
        return chunk.data


def _failure(error: grpc.RpcError) -> ClusterError:
    call = cast(grpc.Call, error)
    for key, value in call.trailing_metadata() or ():
        if key == _FAILURE_KEY and isinstance(value, bytes):
            return _typed(value)
    code = call.code()
    details = call.details() or ""
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        # Cancelled: the connection was closed here, or the server gave the call's slot to another caller.
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
        return ClusterError(ClusterErrorKind.BAD_REPLY, "the validator's answer is an error that cannot be parsed")


def _ref_of(file: BinaryIO) -> t.BlobRef:
    digest = sha256()
    size = 0
    file.seek(0)
    while part := file.read(_READ_BYTES):
        digest.update(part)
        size += len(part)
    return t.BlobRef(digest.digest(), size)


# --- connections to validators, at their current endpoints on chain -----------------------------


def connect(validator: Validator, key: Signer, chain_id: str) -> ClusterClient:
    """Return a client that trusts only the certificate on chain; ClusterError if the validator published none."""
    if not validator.endpoint or not validator.certificate:
        raise ClusterError(
            ClusterErrorKind.UNREACHABLE,
            f"validator {validator.moniker or validator.operator} has published no endpoint",
            "try again after its operator has started its daemon",
        )
    return ClusterClient(validator.endpoint, validator.certificate, key, chain_id)


class Connections:
    """The connections to validators, one for each.

    A connection is replaced if the validator's endpoint or certificate has changed. Thread-safe.
    """

    def __init__(self, key: Signer) -> None:
        """Sign calls with ``key``."""
        self._key = key
        self._lock = Lock()
        self._clients: dict[str, tuple[str, bytes, ClusterClient]] = {}
        self._closed = False

    def client(self, validator: Validator, chain_id: str) -> ClusterClient:
        """Return the cached client of a validator, or a new one if its endpoint or certificate has changed.

        ClusterError if the validator has published no endpoint, or after :meth:`close`.
        """
        address = (validator.endpoint, validator.certificate)
        with self._lock:
            if self._closed:
                raise ClusterError(ClusterErrorKind.UNREACHABLE, "the connections are closed")
            known = self._clients.get(validator.operator)
            if known is not None and known[:2] == address:
                return known[2]
            client = connect(validator, self._key, chain_id)
            if known is not None:
                known[2].close()
            self._clients[validator.operator] = (*address, client)
            return client

    def close(self) -> None:
        """Close all connections for good; running calls end."""
        with self._lock:
            self._closed = True
            for _, _, client in self._clients.values():
                client.close()
            self._clients.clear()
