"""Calls that never say what they want, as somebody makes them who owns many addresses: TLS and HTTP/2 by hand."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from link.calls import SERVICE
from link.tls import SERVER_NAME, pem_of
from tests.unit.link.support import Running

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS, _END_HEADERS = 1, 4, 4


@contextmanager
def half_sent(up: Running, sources: Sequence[str], count: int) -> Iterator[list[ssl.SSLSocket]]:
    """Open ``count`` calls without a message from each of the addresses, on a connection for each."""
    host, _, port = up.endpoint.rpartition(":")
    context = ssl.create_default_context(cadata=pem_of(up.certificate.der).decode())
    context.set_alpn_protocols(["h2"])
    with ExitStack() as stack:
        opened = []
        for source in sources:
            plain = stack.enter_context(socket.create_connection((host, int(port)), 10, source_address=(source, 0)))
            secure = stack.enter_context(context.wrap_socket(plain, server_hostname=SERVER_NAME))
            secure.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
            for number in range(count):
                secure.sendall(_frame(_HEADERS, _END_HEADERS, 2 * number + 1, _request()))
            opened.append(secure)
        yield opened


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _request() -> bytes:
    """Return the headers of a call, each as a literal with its own name (RFC 7541, 6.2.2)."""
    fields = {
        ":method": "POST",
        ":scheme": "https",
        ":path": f"/{SERVICE}/Bandwidth",
        ":authority": SERVER_NAME,
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(
        bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items()
    )
