"""The gRPC server of a node: the table of services, and health. Other paths are UNIMPLEMENTED."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from chain.app.cosmos_services import Handler
from chain.app.interfaces import UNREACHABLE, Broadcaster, QueryPort
from chain.app.services import build_table
from domain.errors import NOT_FOUND, Code, Refusal
from domain.limits import TX_BYTES_MAX
from host.addresses import HostPort
from wire.results import code_metadata

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX: Final = 2 * TX_BYTES_MAX  # Large enough for a simulation, whose message contains a transaction.
CONCURRENT_MAX: Final = 256
THREADS: Final = 8
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
        app: QueryPort,
        broadcaster: Broadcaster | None,
        address: str,
        *,
        connection_seconds_max: float = CONNECTION_SECONDS_MAX,
    ) -> None:
        """Bind ``address``; OSError if it is taken. Calls are answered after :meth:`start`.

        A call occupies a thread from its first byte on, and a client may call without a deadline. So the server ends
        each connection after a time; this also ends calls whose request never arrives.
        """
        age = int(connection_seconds_max * 1000)
        table = {**build_table(app, broadcaster), _HEALTH: lambda _: _SERVING}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="grpc")
        self._server = grpc.server(
            self._pool,
            handlers=[_Methods(table)],
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
            raise OSError(f"cannot listen on {address}: choose another address for gRPC") from None
        self.address = str(HostPort(host, port))

    def start(self) -> None:
        """Start to answer calls."""
        self._server.start()

    def close(self, grace_seconds: float = 1.0) -> None:
        """Accept no new calls, wait at most ``grace_seconds`` for the running ones, and stop."""
        self._server.stop(grace_seconds).wait()
        self._pool.shutdown(cancel_futures=True)


class _Methods(grpc.GenericRpcHandler):
    """The table of handlers in the form that gRPC needs."""

    def __init__(self, table: Mapping[str, Handler]) -> None:
        self._methods: dict[str, Any] = {
            path: grpc.unary_unary_rpc_method_handler(_guarded(path, handler)) for path, handler in table.items()
        }

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call's path; for None, gRPC answers UNIMPLEMENTED."""
        return self._methods.get(handler_call_details.method)


def _guarded(path: str, handler: Handler) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    """Return a handler that turns exceptions into statuses. A bug is INTERNAL and is logged."""

    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return handler(request)
        except Refusal as refusal:
            context.set_trailing_metadata(code_metadata(refusal.code))
            status, text = grpc.StatusCode[status_of(refusal.code)], str(refusal)
        except Exception:
            log.exception("bug in %s", path)
            status, text = grpc.StatusCode.INTERNAL, "internal error; the node's log has the details"
        # This ends the call without a response message, because a client's retry policy may repeat a call only if no
        # message came.
        return context.abort(status, text)

    return handle


_INVALID_ARGUMENT: Final = frozenset({"bad_field", "tx_decode", "invalid_address", "invalid_coins", "invalid_request"})


def status_of(code: Code) -> str:
    """Return the name of the gRPC status for the code of a refusal."""
    if code == NOT_FOUND:
        return "NOT_FOUND"
    if code == UNREACHABLE:
        return "UNAVAILABLE"
    return "INVALID_ARGUMENT" if code.name in _INVALID_ARGUMENT else "FAILED_PRECONDITION"
