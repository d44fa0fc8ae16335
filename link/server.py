"""The validator's end of the link: TLS, envelopes, roles, limits, and typed failures."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from errno import EADDRINUSE
from hashlib import sha256
from os import urandom
from typing import Any, NoReturn

import grpc

from assay.cluster.v1 import cluster_pb2 as pb
from host.addresses import HostPort
from host.ports import is_free
from link.calls import SERVICE, Call, decode, decode_newer, encode
from link.envelope import Gate, SignedRequest
from link.errors import ClusterError, ClusterErrorKind, ListenError
from link.limiter import ConnectionLimiter
from link.rates import Buckets, ServerLimits
from link.receiving import Receiver
from link.tls import Certificate
from link.types import (
    BANDWIDTH,
    CALLS,
    MESSAGE_BYTES_MAX,
    BandwidthReply,
    BandwidthRequest,
    Caller,
    Handlers,
    PutChunkRequest,
    Role,
)

_log = logging.getLogger("assay.cluster")
FAILURE_KEY = "assay-failure-bin"
_SPARE_THREADS = 8
_ENVELOPE_BYTES = 1_024  # about twice the size of an envelope

_STATUS = {
    ClusterErrorKind.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    ClusterErrorKind.TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ClusterErrorKind.STALE: grpc.StatusCode.UNAUTHENTICATED,
    ClusterErrorKind.REPLAYED: grpc.StatusCode.UNAUTHENTICATED,
    ClusterErrorKind.BAD_SIGNATURE: grpc.StatusCode.UNAUTHENTICATED,
    ClusterErrorKind.NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
    ClusterErrorKind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ClusterErrorKind.WRONG_STATE: grpc.StatusCode.FAILED_PRECONDITION,
    ClusterErrorKind.WRONG_CONTENT: grpc.StatusCode.DATA_LOSS,
    ClusterErrorKind.TAKEN: grpc.StatusCode.ALREADY_EXISTS,
    ClusterErrorKind.OVER_QUOTA: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ClusterErrorKind.BUSY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ClusterErrorKind.INTERNAL: grpc.StatusCode.INTERNAL,
}


class ClusterServer:
    """A server that answers calls by :class:`~link.types.Handlers` on ``address`` (port 0: any free port)."""

    def __init__(
        self,
        address: str,
        certificate: Certificate,
        handlers: Handlers,
        chain_id: str,
        *,
        limits: ServerLimits | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Bind the address; calls are answered after :meth:`start`. ListenError if the port is taken."""
        self._handlers = handlers
        limits = limits or ServerLimits()
        self._gate = gate or Gate(chain_id, sha256(certificate.der).digest())
        self._calls = Buckets(limits.calls)
        self._bytes = Buckets(limits.bytes)
        self._messages = Buckets(limits.messages)
        self._stranger_calls = Buckets(limits.stranger_calls)
        self._stranger_bytes = Buckets(limits.stranger_bytes)
        # Each call has a thread while it arrives, and few calls are processed at a time. Some spare threads are for
        # calls that have just lost their slot. So grpc, which cannot tell strangers from known callers, never refuses a
        # call.
        self._pool = ThreadPoolExecutor(
            limits.concurrent + limits.strangers + _SPARE_THREADS, thread_name_prefix="cluster"
        )
        self._receiver = Receiver(limits)
        self._server = grpc.server(
            self._pool,
            options=[
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_metadata_size", 8192),
                ("grpc.max_concurrent_streams", limits.concurrent_per_caller),
                ("grpc.max_allowed_incoming_connections", limits.connections),
                ("grpc.server_handshake_timeout_ms", int(1e3 * limits.handshake_seconds)),
                ("grpc.max_connection_idle_ms", int(1e3 * limits.idle_seconds)),
                ("grpc.so_reuseport", 0),  # otherwise two daemons on one port would each get half of the calls
            ],
        )
        # Requests stay bytes until the envelope is checked, because the signature covers the hash of the body's bytes.
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {call.name: self._handler(call) for call in CALLS}),)
        )
        credentials = grpc.ssl_server_credentials([(certificate.key_pem, certificate.cert_pem)])
        try:
            _check_free(address)  # because gRPC would write lines of its own to stderr
            self.port: int = self._server.add_secure_port(address, credentials)
        except (OSError, RuntimeError):
            self._pool.shutdown()
            raise ListenError(
                f"{address} is taken by another program, or is not an address of this machine",
                "end that program, or choose another address with --listen",
            ) from None
        self._limiter = ConnectionLimiter(self.port, self._receiver.peers, limits)

    def start(self) -> None:
        """Answer calls, on threads of the server."""
        self._server.start()
        self._limiter.start()

    def stop(self, grace: float = 1.0) -> None:
        """Refuse new calls, give running ones ``grace`` seconds, and end."""
        self._limiter.stop()
        self._server.stop(grace).wait()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _handler(self, call: Call[Any, Any]) -> "grpc.RpcMethodHandler[bytes, bytes]":
        def answer(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            try:
                with self._receiver.call(messages, context) as (raw, slot), slot.work():
                    return self._answer(call, raw, context.peer())
            except ClusterError as error:
                _fail(context, error)
            except grpc.RpcError:  # the caller is gone, or took too long
                raise
            except Exception:  # noqa: BLE001 - a bug becomes a typed status and a log line
                ticket = urandom(4).hex()
                _log.exception("bug in %s (%s)", call.name, ticket)
                _fail(
                    context,
                    ClusterError(
                        ClusterErrorKind.INTERNAL,
                        f"internal error {ticket}",
                        "ask the validator's operator: its log has the details",
                    ),
                )

        # On the wire, this handler answers a unary call. But it starts before the call's message has arrived.
        return grpc.stream_unary_rpc_method_handler(answer)

    def _answer(self, call: Call[Any, Any], raw: bytes, peer: str) -> bytes:
        if len(raw) > call.size + _ENVELOPE_BYTES:
            raise ClusterError(
                ClusterErrorKind.TOO_LARGE,
                f"the request has {len(raw)} bytes, and {call.name} takes at most {call.size}",
                "split the request into smaller ones",
            )
        request = decode_newer(SignedRequest, raw)
        envelope = request.envelope
        caller = self._gate.check(envelope, call.name, request.body)
        roles = self._handlers.roles(caller)
        # The rate is checked before the nonce, because it bounds the number of remembered nonces per caller.
        self._charge(caller, bool(roles), len(raw))
        if call.request is not PutChunkRequest:
            self._messages.take(caller.address if roles else "", len(raw), "bytes of messages")
        self._gate.use_nonce(envelope, bool(roles))
        if roles:
            self._receiver.peers.prove(peer, caller.address)
        _check_role(call, roles)
        body = decode(call.request, request.body)
        reply = _send(body) if call is BANDWIDTH else getattr(self._handlers, call.handler)(caller, body)
        answer = encode(reply)
        self._charge_bytes(caller, bool(roles), len(answer))
        return answer

    def _charge(self, caller: Caller, known: bool, size: int) -> None:
        # Anyone can make keys at no cost, so callers without a role share one bucket.
        calls, name = (self._calls, caller.address) if known else (self._stranger_calls, "")
        calls.take(name, 1, "calls")
        self._charge_bytes(caller, known, size)

    def _charge_bytes(self, caller: Caller, known: bool, size: int) -> None:
        buckets, name = (self._bytes, caller.address) if known else (self._stranger_bytes, "")
        buckets.take(name, size, "bytes")


def _send(request: BandwidthRequest) -> BandwidthReply:
    return BandwidthReply(urandom(request.length))


def _check_role(call: Call[Any, Any], roles: frozenset[Role]) -> None:
    if call.roles and not call.roles & roles:
        wanted = " or ".join(sorted(role.name.lower() for role in call.roles))
        raise ClusterError(
            ClusterErrorKind.NOT_ALLOWED,
            f"{call.name} needs the role {wanted} at this validator",
            "register at this validator on the chain first",
            field="envelope.caller",
        )


def _fail(context: grpc.ServicerContext, error: ClusterError) -> NoReturn:
    failure = pb.Failure(kind=error.kind.value, field=error.field, reason=error.reason, remedy=error.remedy)
    context.set_trailing_metadata(((FAILURE_KEY, failure.SerializeToString()),))
    context.abort(_STATUS.get(error.kind, grpc.StatusCode.INTERNAL), str(error)[:1024])
    raise AssertionError("abort did not raise an error")


def _check_free(address: str) -> None:
    """Raise OSError if no server can listen at host:port."""
    try:
        parsed = HostPort.parse(address, any_port=True)
    except ValueError as error:
        raise OSError(str(error)) from None
    if not is_free(parsed.host, parsed.port):
        raise OSError(EADDRINUSE, address)
