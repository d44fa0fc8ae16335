"""A gRPC connection: bytes in, bytes out, a deadline on every call, and errors in our own words."""

import json
from threading import Lock
from typing import Any, Final

import grpc

from chain.client.errors import ChainError, ChainTimeout, ErrorKind, code_of
from wire.results import read_code

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
# Calls are repeated for a short time, because the node may be restarting. A broadcast is sent once: if its answer is
# lost, only the caller knows whether a repetition is safe.
_POLICY: Final = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 3,
                "initialBackoff": "0.2s",
                "maxBackoff": "0.2s",
                "backoffMultiplier": 1,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        },
        {"name": [{"service": "cosmos.tx.v1beta1.Service", "method": "BroadcastTx"}]},
    ]
}
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RESPONSE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # longest time for one try to connect
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", json.dumps(_POLICY)),
    ("grpc.service_config_disable_resolution", 1),
)


class Channel:
    """A connection that is restored automatically. Any thread may call."""

    def __init__(self, address: str, timeout: float) -> None:
        """Store the address; ``timeout`` is in seconds per call, including repetitions."""
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

    def call(self, path: str, request: bytes) -> bytes:
        """Call the gRPC method with the request's bytes, and return the response's bytes.

        Raise ChainError if the call fails.
        """
        try:
            answer: bytes = self._method(path)(request, timeout=self._timeout)
            return answer
        except grpc.RpcError as error:
            raise self._translate(path, error) from None
        except ValueError as error:  # grpc raises it for a closed channel
            raise ChainError(ErrorKind.CLOSED, "the connection is closed", "open a new client") from error

    def _method(self, path: str) -> Any:
        with self._lock:
            method = self._methods.get(path)
            if method is None:
                method = self._methods[path] = self._channel.unary_unary(path)
            return method

    def _translate(self, path: str, error: Any) -> ChainError:
        status = error.code()
        details = error.details() or ""
        refusal = read_code(error.trailing_metadata() or ())
        if status is grpc.StatusCode.UNAVAILABLE:
            if refusal is not None:
                return ChainError(ErrorKind.UNAVAILABLE, details, "")
            return ChainError(
                ErrorKind.UNAVAILABLE,
                f"no node answers at {self.address}",
                "start it, or use the address of another node (--node, or node=)",
            )
        if status is grpc.StatusCode.CANCELLED:  # by this client, or by a node that stops
            if self._closed:
                return ChainError(ErrorKind.CLOSED, "the connection was closed during a call", "open a new client")
            return ChainError(ErrorKind.UNAVAILABLE, f"{self.address} ended the call {path}", "try again")
        if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
            if "SERVER: Received message larger than max" in details:
                return ChainError(
                    ErrorKind.REFUSED,
                    f"{self.address} does not accept a request of this size: {details}",
                    "split the request into smaller ones",
                )
            if "larger than max" in details:
                return ChainError(
                    ErrorKind.BAD_RESPONSE,
                    f"{self.address} answers {path} with too many bytes",
                    "use the address of another assay node (--node, or node=)",
                )
            return ChainError(ErrorKind.UNAVAILABLE, f"{self.address} is busy: {details}", "try again in a few seconds")
        if status is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ChainTimeout(f"{self.address} did not answer {path} within {self._timeout:g} s", "try again")
        code = None if refusal is None else code_of(*refusal)
        if status is grpc.StatusCode.NOT_FOUND:
            return ChainError(ErrorKind.NOT_FOUND, details, "", code)
        if status is grpc.StatusCode.UNIMPLEMENTED:
            return ChainError(
                ErrorKind.BAD_RESPONSE,
                f"{self.address} does not know {path}",
                "use the gRPC address of an assay node, for example 127.0.0.1:9090",
            )
        remedy = "" if code is not None else "see the node's log"
        return ChainError(ErrorKind.REFUSED, details or f"{path} failed ({status.name})", remedy, code)
