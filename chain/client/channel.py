"""One gRPC connection: bytes in, bytes out, a deadline on every call, errors in our own words."""

import time
from threading import Lock
from typing import Any, Final

import grpc

from chain.client.errors import ChainError, ChainTimeout, ErrorKind, code_of

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
CODE_KEY: Final = "assay-code"
CODESPACE_KEY: Final = "assay-codespace"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RESPONSE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long one try to connect may take
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
)
_TRIES: Final = 3
_PAUSE: Final = 0.2


class Channel:
    """A connection that makes itself again. Any thread may call."""

    def __init__(self, address: str, timeout: float) -> None:
        """Make no call yet; ``timeout`` is in seconds and for each call, retries included."""
        self.address = address
        self._timeout = timeout
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._methods: dict[str, Any] = {}
        self._lock = Lock()
        self._closed = False

    def close(self) -> None:
        """Close the connection; calls in progress fail."""
        self._closed = True
        self._channel.close()

    def call(self, path: str, request: bytes, *, repeat: bool = True) -> bytes:
        """Return the response's bytes, or raise a ChainError. A node that starts again is waited
        for a little, unless the call is not to be repeated.
        """
        deadline = time.monotonic() + self._timeout
        tries = _TRIES if repeat else 1
        for attempt in range(tries):
            try:
                answer: bytes = self._method(path)(
                    request, timeout=max(0.001, deadline - time.monotonic())
                )
                return answer
            except grpc.RpcError as error:
                again = error.code() is grpc.StatusCode.UNAVAILABLE and attempt + 1 < tries
                if not again or time.monotonic() + _PAUSE >= deadline:
                    raise self._translate(path, error) from None
            except ValueError as error:  # grpc's word for a closed channel
                raise ChainError(
                    ErrorKind.CLOSED, "the connection is closed", "open a new client"
                ) from error
            time.sleep(_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    def _method(self, path: str) -> Any:
        with self._lock:
            method = self._methods.get(path)
            if method is None:
                method = self._methods[path] = self._channel.unary_unary(path)
            return method

    def _translate(self, path: str, error: Any) -> ChainError:
        status, details = error.code(), error.details() or ""
        if status is grpc.StatusCode.UNAVAILABLE:
            if CODE_KEY in {item[0] for item in error.trailing_metadata() or ()}:
                return ChainError(ErrorKind.UNAVAILABLE, details, "")
            return ChainError(
                ErrorKind.UNAVAILABLE,
                f"no node answers at {self.address}",
                "start it, or give another address with --node",
            )
        if status is grpc.StatusCode.CANCELLED:  # by us, or by a node that stops
            if self._closed:
                return ChainError(
                    ErrorKind.CLOSED, "the connection was closed during a call", "open a new client"
                )
            return ChainError(
                ErrorKind.UNAVAILABLE, f"{self.address} ended the call {path}", "try again"
            )
        if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
            if "SERVER: Received message larger than max" in details:
                return ChainError(
                    ErrorKind.REFUSED,
                    f"{self.address} does not read so large a request: {details}",
                    "send less at a time",
                )
            if "larger than max" in details:
                return ChainError(
                    ErrorKind.BAD_RESPONSE,
                    f"{self.address} answers {path} with too many bytes",
                    "check the address, or use another node",
                )
            return ChainError(
                ErrorKind.UNAVAILABLE, f"{self.address} is busy: {details}", "try again"
            )
        if status is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ChainTimeout(
                f"{self.address} did not answer {path} within {self._timeout:g} s", "try again"
            )
        metadata = {item[0]: item[1] for item in error.trailing_metadata() or ()}
        number = str(metadata.get(CODE_KEY, ""))
        code = None
        if number.isascii() and number.isdigit():
            code = code_of(str(metadata.get(CODESPACE_KEY, "")), int(number))
        if status is grpc.StatusCode.NOT_FOUND:
            return ChainError(ErrorKind.NOT_FOUND, details, "", code)
        if status is grpc.StatusCode.UNIMPLEMENTED:
            return ChainError(
                ErrorKind.BAD_RESPONSE,
                f"{self.address} does not know {path}",
                "give the gRPC address of an assay node",
            )
        remedy = "" if code is not None else "see the node's log"
        return ChainError(
            ErrorKind.REFUSED, details or f"{path} failed ({status.name})", remedy, code
        )
