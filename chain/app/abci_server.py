"""The ABCI socket server: it answers frames in order, on the four connections that CometBFT opens.

A frame is a message's length as an unsigned varint, then the message. All frames of one read are answered with one
write. If a peer breaks the protocol, the server closes and logs its connection; the peer cannot stop the process. If a
bug occurs in a consensus call, the server calls ``on_fatal``, which by default ends the process.

CometBFT may die while some of its requests are not read yet. The next CometBFT process then sends Info to find out
which blocks it has to replay. So before the server answers on a new connection, it waits for the running request of the
dead CometBFT, and drops the requests that were not started.
"""

import logging
import os
import select
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

from cosmpy.protos.tendermint.abci.types_pb2 import Request, Response, ResponseException
from google.protobuf.message import DecodeError

from domain.errors import Expected
from domain.tx import varint

log = logging.getLogger(__name__)

FRAME_BYTES_MAX = 64 * 1024 * 1024
CONNECTIONS_MAX = 16
SOCKET_PATH_MAX = 107
EXIT_BUG = 70  # EX_SOFTWARE
_READ_BYTES = 256 * 1024
_VARINT_BYTES_MAX = 5
_NEW = 0  # CheckTxType: not a recheck
_ACCEPT_PAUSE_SECONDS = 0.1  # pause if the process has no free file descriptor

Method = Callable[[Any], bytes]
"""A function from the message of a request to the whole ``Response``, serialized."""

Prefetch = Callable[[Sequence[bytes]], None]
"""A function that gets the transactions of all new CheckTx requests of a batch before they are answered in order."""

CONSENSUS_METHODS: Final = frozenset(
    {
        "info",
        "init_chain",
        "prepare_proposal",
        "process_proposal",
        "extend_vote",
        "verify_vote_extension",
        "finalize_block",
        "commit",
    }
)
"""Methods in which a bug must stop the node. Otherwise the node could disagree with other nodes, or vote without a
check."""


class BrokenFrame(Exception):
    """Bytes from the peer that are not ABCI."""


def stop_loudly(error: BaseException) -> None:
    """End the process at once, with the reason in the log and an exit code that is not success."""
    if isinstance(error, Expected):
        log.critical("the node stops: %s", error)
        sys.stderr.write(f"assay node: stopped: {error}\n")
    else:
        log.critical("the node stops: %s: %s", type(error).__name__, error, exc_info=error)
        sys.stderr.write(f"assay node: stopped by a bug: {type(error).__name__}: {error}\n")
    sys.stderr.flush()
    logging.shutdown()
    os._exit(EXIT_BUG)


class AbciConnection:
    """A connection that a peer opened. It processes one request at a time, and none after :meth:`cut_off`."""

    def __init__(self, peer: socket.socket, number: int) -> None:
        """Wrap the accepted socket ``peer``; ``number`` identifies the connection."""
        self.peer = peer
        self.number = number
        self.turn = Lock()  # held while a request is processed
        self.is_cut_off = False

    def is_abandoned(self) -> bool:
        """Return whether the peer has closed its end of the connection, even if bytes from the peer are still unread.

        If the peer's process has died, the operating system has closed its end.
        """
        poll = select.poll()
        poll.register(self.peer, 0)  # POLLHUP is always reported
        return bool(poll.poll(0))

    def cut_off(self) -> None:
        """Process no further request of this connection, and return when the current request is finished."""
        self.is_cut_off = True
        with self.turn:
            pass

    def hang_up(self) -> None:
        """Close both directions, so that blocked readers and writers wake up."""
        with suppress(OSError):  # the peer has already closed it
            self.peer.shutdown(socket.SHUT_RDWR)


class AbciServer:
    """A server on a unix socket that only its owner may connect to, with a thread per connection."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        path: Path,
        on_fatal: Callable[[BaseException], None] = stop_loudly,
        prefetch: Prefetch = lambda raws: None,
    ) -> None:
        """Bind and listen; after :meth:`start`, ``methods`` answer requests by their names in ``Request``."""
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            raise ValueError(f"a socket path may have at most {SOCKET_PATH_MAX} bytes: {path}")
        self.path = path
        self._methods = methods
        self._on_fatal = on_fatal
        self._prefetch = prefetch
        self._connections: set[AbciConnection] = set()
        self._lock = Lock()
        self._closed = Event()
        # A socket file is left by a killed process; the database's lock shows whether a node is running.
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o600)  # before anyone can connect
        self._listener.listen(CONNECTIONS_MAX)
        self._thread = Thread(target=self._accept, name="abci-accept", daemon=True)

    def start(self) -> None:
        """Accept connections in the background."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening, close all connections, and wait for running requests; nothing is processed afterwards."""
        self._closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.hang_up()
        for connection in connections:
            connection.cut_off()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        number = 0
        while not self._closed.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError as error:
                if not self._closed.is_set():
                    log.warning("no connection can be accepted: %s", error)
                    self._closed.wait(_ACCEPT_PAUSE_SECONDS)
                continue
            number += 1
            self._settle_abandoned()
            self._admit(AbciConnection(peer, number))

    def _settle_abandoned(self) -> None:
        """Cut off and forget the connections whose peers are gone."""
        with self._lock:  # so that no other thread closes one of them
            abandoned = [connection for connection in self._connections if connection.is_abandoned()]
        for connection in abandoned:
            connection.cut_off()
        with self._lock:
            self._connections.difference_update(abandoned)

    def _admit(self, connection: AbciConnection) -> None:
        with self._lock:
            if len(self._connections) < CONNECTIONS_MAX:
                self._connections.add(connection)
                name = f"abci-{connection.number}"
                Thread(target=self._serve, args=(connection,), name=name, daemon=True).start()
                return
        log.warning("connection %d refused: %d are open", connection.number, CONNECTIONS_MAX)
        connection.peer.close()

    def _serve(self, connection: AbciConnection) -> None:
        number = connection.number
        try:
            serve_connection(connection.peer, partial(self._answer, connection))
            log.debug("connection %d closed by the peer", number)
        except BrokenFrame as error:
            log.warning("connection %d closed: %s", number, error)
        except OSError as error:
            log.info("connection %d lost: %s", number, error)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.hang_up()
            connection.peer.close()

    def _answer(self, connection: AbciConnection, frames: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the serialized response to each request of a batch, in the order of the requests."""
        requests = list(map(_parse, frames))
        new = [request.tx for name, request in requests if name == "check_tx" and request.type == _NEW]
        if len(new) > 1:
            self._prefetch(new)
        for name, request in requests:
            with connection.turn:
                if connection.is_cut_off:
                    raise ConnectionAbortedError("its peer is gone, so its request is dropped")
                answer = self._respond(name, request)
            yield answer

    def _respond(self, name: str | None, request: Any) -> bytes:
        method = self._methods.get(name or "")
        if method is None:
            raise BrokenFrame(request or f"unknown ABCI request {name}")
        try:
            return method(request)
        except Exception as error:
            if name in CONSENSUS_METHODS:
                self._on_fatal(error)
            log.exception("bug in %s", name)
            response = Response(exception=ResponseException(error=f"internal error in {name}"))
        answer: bytes = response.SerializeToString()
        return answer


def _parse(data: bytes) -> tuple[str | None, Any]:
    """Return the name and the message of the request in a frame; for other bytes, None and the text of the error."""
    try:
        request = Request.FromString(data)
    except DecodeError:
        return None, "a frame is not an ABCI request"
    name = request.WhichOneof("value")
    return name, None if name is None else getattr(request, name)


def serve_connection(connection: socket.socket, answer: Callable[[Sequence[bytes]], Iterable[bytes]]) -> None:
    """Answer the frames that a peer sends, in order, until the peer closes the connection.

    The answers to all frames that one read completes are sent with one write.
    """
    buffer = bytearray()
    while chunk := connection.recv(_READ_BYTES):
        buffer += chunk
        frames, at, broken = split_frames(buffer)
        out: list[bytes] = []
        try:
            for reply in answer(frames):
                out += (varint(len(reply)), reply)
        finally:  # requests before a broken frame are still answered
            if out:
                connection.sendall(b"".join(out))
        if broken is not None:
            raise broken
        del buffer[:at]


def split_frames(buffer: bytearray) -> tuple[list[bytes], int, BrokenFrame | None]:
    """Return the complete messages of a buffer, the offset of their end, and the error of the next message, if any."""
    frames: list[bytes] = []
    at = 0
    whole = b""  # a copy of the buffer, made when it contains a complete message
    while True:
        # Requests with one transaction have a length of two bytes, so this check usually suffices.
        if at + 1 < len(buffer) and buffer[at] > 0x7F >= buffer[at + 1]:
            start, size = at + 2, buffer[at] & 0x7F | buffer[at + 1] << 7
        else:
            try:
                start, size = read_varint(buffer, at)
            except BrokenFrame as broken:
                return frames, at, broken
        if size > FRAME_BYTES_MAX:
            return frames, at, BrokenFrame(f"a frame has {size} bytes, and at most {FRAME_BYTES_MAX} are allowed")
        if not start or start + size > len(buffer):
            return frames, at, None
        whole = whole or bytes(buffer)
        at = start + size
        frames.append(whole[start:at])


def read_varint(buffer: bytearray, at: int) -> tuple[int, int]:
    """Read the varint at ``at``. Return the offset of the message's first byte, and the message's size.

    The result is (0, 0) if the buffer ends before the varint does.
    """
    value = 0
    for count in range(_VARINT_BYTES_MAX):
        if at + count >= len(buffer):
            return 0, 0
        byte = buffer[at + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return at + count + 1, value
    raise BrokenFrame("the length of a frame has more than five bytes")


def frame(message: Any) -> bytes:
    """Return a message as a frame: its length as a varint, then its bytes. The client's side of tests uses it."""
    data: bytes = message.SerializeToString()
    return varint(len(data)) + data
