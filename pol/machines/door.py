"""The way in to a machine of a group over TCP: connections to the other machines, and to no one else.

Each machine listens at a port of its node for the seconds in which a group forms. Of two machines, the one with the
larger number dials. The one that listens greets every caller with random bytes. The caller answers with its own random
bytes and a proof that it has the group's key, and gets the other side's proof. So a caller without the key gets nothing
but a greeting, and a recorded call is worthless. A connection that was proved goes to the member's process, which makes
a :class:`pol.machines.channel.Channel` of it. Nothing of the proofs is a key of the channel.

A stranger can hold one of ``STRANGERS_MAX`` places for ``CALL_SECONDS`` at most. If all are taken, the oldest call
ends, first among those from addresses of no machine of the group. A machine calls again until the deadline.
"""

import hmac
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pol.machines.stream import LinkError, LostMachine

STRANGERS_MAX: Final = 32
"""Most callers at a time that have not proved that they have the key."""
CALL_SECONDS: Final = 5.0
"""Longest time (s) from a call to its proof."""
PORTS: Final = (6600, 6699)
"""The first and the last port at which machines listen, unless the node's owner sets others."""
PORTS_VARIABLE: Final = "ASSAY_MACHINE_PORTS"
_AGAIN_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.5
_MAGIC: Final = b"assay/door/1"
_GREETING: Final = struct.Struct(f">{len(_MAGIC)}s32s")
_CALL: Final = struct.Struct(">HH32s32s")
_PROOF_SIZE: Final = 32
# Settings of a connection, in seconds and tries: a machine that is gone is noticed while the other only waits for it.
_ALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


@dataclass(frozen=True, slots=True)
class Address:
    """The address at which a machine listens."""

    host: str
    port: int


class NoPort(LinkError):
    """The error of a node that cannot listen at any of its ports."""


def port_range(text: str) -> tuple[int, int]:
    """Return the first and the last port of a range such as ``6600-6699``; the default if the text is empty."""
    if not text:
        return PORTS
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 1 << 16):
        raise NoPort(f"{PORTS_VARIABLE} is {text!r}", "set it to a range of ports, such as 6600-6699")
    return int(first), int(last)


class Door:
    """The listening socket of a machine. Its calls are answered in :meth:`meet`, and by the system until then."""

    def __init__(self, host: str, ports: tuple[int, int]) -> None:
        """Listen at the first free port. Raises NoPort if there is none."""
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._is_meeting = False
        self._listener = _listen(host, ports)
        self.address = Address(host, self._listener.getsockname()[1])

    def meet(
        self, own: int, peers: Mapping[int, Address], key: bytes, context: bytes, seconds: float
    ) -> dict[int, socket.socket]:
        """Return a connection to each peer that has the group's key; ``context`` names the group.

        The connections do not block. The door is closed afterwards. Raises LostMachine if a peer is not there within
        ``seconds``, and LinkError if :meth:`close` is called.
        """
        with self._lock:
            if self._closed.is_set() or self._is_meeting:
                raise LinkError("the door is closed")
            self._is_meeting = True
        deadline = time.monotonic() + seconds
        proofs = _Proofs(own, key, context)
        known = {address.host for address in peers.values()}
        answering = _Answering(self._listener, proofs, [peer for peer in peers if peer > own], known)
        lower = [peer for peer in peers if peer < own]
        with ThreadPoolExecutor(max(1, len(lower))) as threads:
            # At once, so that one that cannot be reached does not keep this machine from calling the others.
            dialled = {peer: threads.submit(self._dial, peer, peers[peer], proofs, deadline) for peer in lower}
            try:
                while answering.missing and not any(each.done() and each.exception() for each in dialled.values()):
                    self._check(answering, deadline)
                    answering.look(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
                found = {peer: each.result() for peer, each in dialled.items()}
            except BaseException:
                self._closed.set()
                wait(dialled.values())
                done = [each.result() for each in dialled.values() if not each.exception()]
                for connection in (*done, *answering.met.values()):
                    connection.close()
                raise
            finally:
                answering.close()
                self._listener.close()
        return found | answering.met

    def _check(self, answering: "_Answering", deadline: float) -> None:
        if self._closed.is_set():
            raise LinkError("the group ended")
        if time.monotonic() >= deadline:
            machine = answering.missing[0]
            raise LostMachine(machine, f"machine {machine} did not call before the deadline")

    def close(self) -> None:
        """Stop listening. Any thread may call this: :meth:`meet` then ends soon."""
        with self._lock:
            self._closed.set()
            if not self._is_meeting:
                self._listener.close()

    def _dial(self, peer: int, address: Address, proofs: "_Proofs", deadline: float) -> socket.socket:
        """Call a peer until it answers with a proof."""
        why = "no answer"
        while not self._closed.is_set() and (left := deadline - time.monotonic()) > 0:
            try:
                return _call(peer, address, proofs, min(left, CALL_SECONDS))
            except (OSError, LinkError) as error:
                why = error.reason if isinstance(error, LinkError) else str(error.strerror or error)
            self._closed.wait(_AGAIN_SECONDS)
        raise LostMachine(peer, f"machine {peer} at {address.host} port {address.port} cannot be reached: {why}")


class _Proofs:
    """The proofs that a machine has the key of a group. Each is of one call, one direction, and two machines."""

    def __init__(self, own: int, key: bytes, context: bytes) -> None:
        self.own = own
        self._key = HKDF(SHA256(), 32, b"assay/machines/door", context).derive(key)

    def of(self, kind: bytes, caller: int, called: int, calling: bytes, greeting: bytes) -> bytes:
        """Return the proof of the side ``kind``."""
        return hmac.digest(self._key, kind + struct.pack(">HH", caller, called) + calling + greeting, "sha256")


def _call(peer: int, address: Address, proofs: _Proofs, seconds: float) -> socket.socket:
    """Call a peer once. Raises OSError or LinkError if it is not there, or does not prove itself in time."""
    deadline = time.monotonic() + seconds
    connection = socket.create_connection((address.host, address.port), seconds)
    try:
        _prove(connection, peer, proofs, deadline)
    except BaseException:
        connection.close()
        raise
    return _prepared(connection)


def _prove(connection: socket.socket, peer: int, proofs: _Proofs, deadline: float) -> None:
    magic, greeting = _GREETING.unpack(_exactly(connection, _GREETING.size, deadline))
    if magic != _MAGIC:
        raise LinkError("something else than a machine of a group listens there")
    calling = os.urandom(32)
    proof = proofs.of(b"caller", proofs.own, peer, calling, greeting)
    connection.sendall(_CALL.pack(proofs.own, peer, calling, proof))
    expected = proofs.of(b"called", proofs.own, peer, calling, greeting)
    if not hmac.compare_digest(_exactly(connection, _PROOF_SIZE, deadline), expected):
        raise LinkError("what listens there does not have the key of this group")


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        piece = connection.recv(size - len(data))
        if not piece:
            raise LinkError("the call was refused")
        data += piece
    return data


@dataclass(eq=False)
class _Caller:
    """A caller that has proved nothing yet."""

    connection: socket.socket
    greeting: bytes
    ends: float
    # True if it calls from the address of a machine of the group. Most strangers have another one.
    is_known: bool
    data: bytes = b""


class _Answering:
    """The answers to calls at a listening socket. No call waits for another one."""

    def __init__(
        self, listener: socket.socket, proofs: _Proofs, expected: Sequence[int], known: Collection[str]
    ) -> None:
        self._listener, self._proofs, self._expected, self._known = listener, proofs, expected, known
        self._callers: dict[int, _Caller] = {}
        self.met: dict[int, socket.socket] = {}

    @property
    def missing(self) -> list[int]:
        """The machines that have not called."""
        return [peer for peer in self._expected if peer not in self.met]

    def look(self, seconds: float) -> None:
        """Handle what happens within ``seconds``."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        for descriptor in self._callers:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(1000 * seconds):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._callers:
                self._read(self._callers[descriptor])
        now = time.monotonic()
        for caller in [caller for caller in self._callers.values() if now >= caller.ends]:
            self._refuse(caller)

    def close(self) -> None:
        """End the calls that have proved nothing."""
        for caller in list(self._callers.values()):
            self._refuse(caller)

    def _accept(self) -> None:
        try:
            connection, (host, *_) = self._listener.accept()
        except OSError:
            # The caller is gone, or there is no descriptor left for it.
            return
        if len(self._callers) >= STRANGERS_MAX:
            self._refuse(min(self._callers.values(), key=lambda caller: (caller.is_known, caller.ends)))
        connection.setblocking(False)
        greeting = os.urandom(32)
        caller = _Caller(
            connection=connection,
            greeting=greeting,
            ends=time.monotonic() + CALL_SECONDS,
            is_known=host in self._known,
        )
        self._callers[connection.fileno()] = caller
        try:
            connection.send(_GREETING.pack(_MAGIC, greeting))
        except OSError:
            self._refuse(caller)

    def _read(self, caller: _Caller) -> None:
        try:
            piece = caller.connection.recv(_CALL.size - len(caller.data))
        except BlockingIOError:
            # The event was of another call, whose descriptor this one has got.
            return
        except OSError:
            piece = b""
        caller.data += piece
        if not piece:
            self._refuse(caller)
        elif len(caller.data) == _CALL.size:
            self._answer(caller)

    def _answer(self, caller: _Caller) -> None:
        source, target, calling, proof = _CALL.unpack(caller.data)
        expected = self._proofs.of(b"caller", source, target, calling, caller.greeting)
        is_right = hmac.compare_digest(proof, expected)
        if not is_right or target != self._proofs.own or source not in self._expected:
            self._refuse(caller)
            return
        try:
            caller.connection.send(self._proofs.of(b"called", source, target, calling, caller.greeting))
        except OSError:
            self._refuse(caller)
            return
        del self._callers[caller.connection.fileno()]
        if source in self.met:
            # It has not seen the answer to its last call, and called again.
            self.met[source].close()
        self.met[source] = _prepared(caller.connection)

    def _refuse(self, caller: _Caller) -> None:
        del self._callers[caller.connection.fileno()]
        caller.connection.close()


def _listen(host: str, ports: tuple[int, int]) -> socket.socket:
    why = ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in range(ports[0], ports[1] + 1):
        try:
            listener = socket.create_server((host, port), family=family, backlog=STRANGERS_MAX)
        except OSError as error:
            why = str(error.strerror or error)
            continue
        listener.setblocking(False)
        return listener
    remedy = f"free one of them, or set {PORTS_VARIABLE} to other ports before ray start on this node"
    raise NoPort(f"the node cannot listen at {host}, ports {ports[0]} to {ports[1]}: {why}", remedy)


def _prepared(connection: socket.socket) -> socket.socket:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection
