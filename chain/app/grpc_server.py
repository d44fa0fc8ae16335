"""The gRPC server of a node: the table of services, health and reflection. Other paths are UNIMPLEMENTED."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import grpc

from chain.app.interfaces import UNREACHABLE
from chain.app.reflection import PATHS as REFLECTION_PATHS
from chain.app.reflection import Reflection
from chain.app.services.table import Services
from domain.errors import INVALID_REQUEST, NOT_FOUND, Code, Refusal
from domain.limits import TX_BYTES_MAX
from host.addresses import HostPort
from wire.results import code_metadata

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 2 * TX_BYTES_MAX  # Large enough for a simulation, whose message contains a transaction.
CONCURRENT_MAX: Final = 256
THREADS: Final = 10
"""Number of threads for calls: more than all queues (:mod:`chain.app.turns`, CometBFT) let in together."""
STREAMS_MAX: Final = 32
"""Largest number of streams at once. Streams have threads of their own, so they never take those of calls."""
STREAMS_PER_HOST: Final = 8
HEIGHT_KEY: Final = "x-cosmos-block-height"
"""The metadata by which a call asks for the state at a height, and by which the answer names its height."""
# After this time the connection ends, and the client connects again automatically.
CONNECTION_SECONDS_MAX: Final = 60.0
_GRACE: Final = 6  # After that time, running calls may go on for 1/6 of it.
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_SERVING: Final = b"\x08\x01"  # HealthCheckResponse{status: SERVING}

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # two nodes on one port must be an error
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class GrpcServer:
    """A server of a node's services on ``host:port``; port 0 chooses a free port (see ``address``)."""

    def __init__(
        self,
        services: Services,
        address: str,
        *,
        connection_seconds_max: float = CONNECTION_SECONDS_MAX,
    ) -> None:
        """Bind ``address``; OSError if it is taken. Calls are answered after :meth:`start`.

        A call occupies a thread from its first byte on, and a client may call without a deadline. So the server ends
        each connection after a time; this also ends calls whose request never arrives.
        """
        age = int(connection_seconds_max * 1000)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="grpc")
        self._streams = ThreadPoolExecutor(STREAMS_MAX, thread_name_prefix="grpc-stream")
        self._server = grpc.server(
            self._pool,
            handlers=[_Methods(services, self._streams)],
            options=(
                *_OPTIONS,
                ("grpc.max_connection_age_ms", age),
                ("grpc.max_connection_age_grace_ms", age // _GRACE),
            ),
            maximum_concurrent_rpcs=CONCURRENT_MAX,
        )
        try:
            host = HostPort.parse(address, any_port=True).host
            port = self._server.add_insecure_port(address)
        except (RuntimeError, ValueError):
            self._pool.shutdown()
            self._streams.shutdown()
            raise OSError(f"cannot listen on {address}: choose another address for gRPC") from None
        self.address = str(HostPort(host, port))

    def start(self) -> None:
        """Start to answer calls."""
        self._server.start()

    def close(self, grace_seconds: float = 1.0) -> None:
        """Accept no new calls, wait at most ``grace_seconds`` for the running ones, and stop."""
        self._server.stop(grace_seconds).wait()
        self._pool.shutdown(cancel_futures=True)
        self._streams.shutdown(wait=False, cancel_futures=True)


class _Methods(grpc.GenericRpcHandler):
    """The table of services in the form that gRPC needs."""

    def __init__(self, services: Services, pool: ThreadPoolExecutor) -> None:
        slots = _StreamSlots()
        self._methods: dict[str, Any] = {_HEALTH: grpc.unary_unary_rpc_method_handler(lambda _, __: _SERVING)}
        for path, method in services.methods.items():
            if method.is_stream:
                pages = _stream(path, services, slots)
                pages.experimental_thread_pool = pool  # type: ignore[attr-defined]
                self._methods[path] = grpc.unary_stream_rpc_method_handler(pages)
            else:
                self._methods[path] = grpc.unary_unary_rpc_method_handler(_unary(path, services))
        listed = {method.descriptor.containing_service.full_name for method in services.methods.values()}
        reflection = Reflection(listed)
        for path in REFLECTION_PATHS:
            answers = _reflect(path, reflection, slots)
            answers.experimental_thread_pool = pool  # type: ignore[attr-defined]
            self._methods[path] = grpc.stream_stream_rpc_method_handler(answers)

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call's path; for None, gRPC answers UNIMPLEMENTED."""
        return self._methods.get(handler_call_details.method)


def _unary(path: str, services: Services) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        with _statuses(path, context):
            answered = services.call(path, request, _asked_height(context))
            context.send_initial_metadata(((HEIGHT_KEY, str(answered.height)),))
            return answered.data

    return handle


def _stream(path: str, services: Services, slots: "_StreamSlots") -> Callable[..., Iterator[bytes]]:
    def handle(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        with _statuses(path, context), slots.taken(context.peer()):
            for page in services.follow(path, request):
                if not context.is_active():
                    return
                if page is not None:
                    yield page

    return handle


def _reflect(path: str, reflection: Reflection, slots: "_StreamSlots") -> Callable[..., Iterator[bytes]]:
    def handle(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with _statuses(path, context), slots.taken(context.peer()):
            yield from reflection.answer(requests)

    return handle


@contextmanager
def _statuses(path: str, context: grpc.ServicerContext) -> Iterator[None]:
    """Turn exceptions of the block into statuses. A bug is INTERNAL and is logged."""
    try:
        yield
        return
    except Refusal as refusal:
        context.set_trailing_metadata(code_metadata(refusal.code))
        status, text = grpc.StatusCode[status_of(refusal.code)], str(refusal)
    except Exception:
        log.exception("bug in %s", path)
        status, text = grpc.StatusCode.INTERNAL, "internal error; the node's log has the details"
    # This ends the call without a response message, because a client's retry policy may repeat a call only if no
    # message came.
    context.abort(status, text)


def _asked_height(context: grpc.ServicerContext) -> int:
    """Return the height whose state a call asks for (0: the newest)."""
    for key, value in context.invocation_metadata() or ():
        if key == HEIGHT_KEY:
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            if not (text.isascii() and text.isdigit() and len(text) <= 18):
                raise Refusal(INVALID_REQUEST, HEIGHT_KEY, "is not a height", "send decimal digits, or leave it out")
            return int(text)
    return 0


class _StreamSlots:
    """The streams that are open, counted for all callers and per host."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: Counter[str] = Counter()

    @contextmanager
    def taken(self, peer: str) -> Iterator[None]:
        """Hold a slot during the block; raise a Refusal if there is none."""
        host = peer.rpartition(":")[0]
        with self._lock:
            if self._open.total() >= STREAMS_MAX or self._open[host] >= STREAMS_PER_HOST:
                raise Refusal(UNREACHABLE, "stream", "too many streams are open", "close some, or try again later")
            self._open[host] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[host] -= 1
                if not self._open[host]:
                    del self._open[host]


_INVALID_ARGUMENT: Final = frozenset({"bad_field", "tx_decode", "invalid_address", "invalid_coins", "invalid_request"})


def status_of(code: Code) -> str:
    """Return the name of the gRPC status for the code of a refusal."""
    if code == NOT_FOUND:
        return "NOT_FOUND"
    if code == UNREACHABLE:
        return "UNAVAILABLE"
    return "INVALID_ARGUMENT" if code.name in _INVALID_ARGUMENT else "FAILED_PRECONDITION"
