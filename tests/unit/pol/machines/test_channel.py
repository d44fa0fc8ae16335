"""Channels between machines of a group: what an attacker at a socket achieves."""

import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pol.machines.channel import FRAME_BYTES, Channel
from pol.machines.stream import LinkClosed, LinkError, Stream
from pol.split.exchanges import Form, Forms, Message, forms_of

KEY, CONTEXT = b"k" * 32, b"job and plan"
PATIENCE = 20.0
HEAD = struct.Struct(">IQ")
HELLO = struct.Struct(">16sHH32s")
MAGIC = b"assay/machines/1"
SMALL: Forms = (Form(np.dtype("<f4"), (3,)),)


SOCKETS: list[socket.socket] = []


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    yield
    while SOCKETS:
        SOCKETS.pop().close()


def ends() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that do not block."""
    pair = socket.socketpair()
    SOCKETS.extend(pair)
    for end in pair:
        end.setblocking(False)
    return pair


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """The results, or the errors, of calls that run at the same time."""
    found: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            found[index] = calls[index]()
        except LinkError as error:
            found[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return found


def opened(
    *, keys: tuple[bytes, bytes] = (KEY, KEY), contexts: tuple[bytes, bytes] = (CONTEXT, CONTEXT), second: int = 1
) -> list[Any]:
    """The channels of machines 0 and 1, or errors."""
    left, right = (Stream(end.detach(), name) for end, name in zip(ends(), ("machine 1", "machine 0"), strict=True))
    return at_once(
        lambda: Channel.open(left, 0, 1, keys[0], contexts[0], PATIENCE),
        lambda: Channel.open(right, second, 0, keys[1], contexts[1], PATIENCE),
    )


class Relay:
    """Two machines whose bytes go through an attacker, who sees them and may change them.

    ``recorded`` has the frames of machine 0 after the opening; ``to_second`` sends bytes to machine 1.
    """

    def __init__(self) -> None:
        (first, own_first), (own_second, second) = ends(), ends()
        for own in (own_first, own_second):
            own.setblocking(True)
        self._first, self._second = own_first, own_second
        self.recorded: list[bytes] = []
        self.hellos: list[bytes] = []
        streams = Stream(first.detach(), "machine 1"), Stream(second.detach(), "machine 0")
        results = at_once(
            lambda: Channel.open(streams[0], 0, 1, KEY, CONTEXT, PATIENCE),
            lambda: Channel.open(streams[1], 1, 0, KEY, CONTEXT, 5.0),
            self._pass_opening,
        )
        self.first: Channel = results[0]
        self.second: Channel = results[1]

    def _pass_opening(self) -> None:
        for source, target in ((self._first, self._second), (self._second, self._first)):
            self.hellos.append(_exactly(source, HELLO.size))
            target.sendall(self.hellos[-1])
        for source, target in ((self._first, self._second), (self._second, self._first)):
            target.sendall(self.take(source))

    def take(self, source: socket.socket | None = None) -> bytes:
        """The next frame of machine 0, which machine 1 does not get."""
        head = _exactly(source or self._first, HEAD.size)
        return head + _exactly(source or self._first, HEAD.unpack(head)[0])

    def to_second(self, data: bytes) -> None:
        self._second.sendall(data)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += source.recv(size - len(data))
    return data


@contextmanager
def refused(words: str) -> Iterator[None]:
    with pytest.raises(LinkError, match=words):
        yield


def message() -> Message:
    return (np.arange(3, dtype=np.float32),)


def test_messages_arrive_in_both_directions() -> None:
    rng = np.random.default_rng(1)
    first, second = opened()
    sent: list[Message] = [
        (rng.standard_normal((700, 1_000)).astype(np.float32), np.arange(5), np.array([True, False])),
        (np.array(7),),
        (np.empty((0, 4), np.float32),),
        (np.arange(FRAME_BYTES, dtype=np.uint8),),
        (np.broadcast_to(np.float32(2), (3, 5)),),
    ]
    for each in sent:
        # Both send before either receives: more than a socket holds.
        first.send(each)
        second.send(each)
    for each in sent:
        for channel in (first, second):
            found = channel.receive(forms_of(each))
            assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(found, each, strict=True))
    first.flush()
    second.flush()


def test_a_message_is_freed_when_it_is_sent() -> None:
    """Otherwise a gradient would stay in memory until the next message."""
    first, second = opened()
    array = np.ones(1_000, np.float32)
    forms, known = forms_of((array,)), weakref.ref(array)
    first.send((array,))
    del array
    second.receive(forms)
    deadline = time.monotonic() + PATIENCE
    while known() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert known() is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"keys": (KEY, b"x" * 32)}, id="another key"),
        pytest.param({"contexts": (CONTEXT, b"another plan")}, id="another group"),
    ],
)
def test_a_stranger_with_another_secret_is_refused(options: dict[str, Any]) -> None:
    for found in opened(**options):
        assert isinstance(found, LinkError)


def test_a_member_with_another_number_is_refused() -> None:
    first, _ = opened(second=2)
    assert isinstance(first, LinkError)
    assert "not machine 1" in first.reason


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(64), "not a machine of this group", id="browser"),
        pytest.param(HELLO.pack(MAGIC, 0, 1, bytes(32)), "not machine 1", id="own number"),
        pytest.param(HELLO.pack(MAGIC, 1, 0, bytes(32)) + HEAD.pack(16, 0) + bytes(16), "did not seal", id="no key"),
        pytest.param(HELLO.pack(MAGIC, 1, 0, bytes(32)) + HEAD.pack(2**32 - 1, 0), "4294967295 bytes", id="large"),
        pytest.param(HELLO.pack(MAGIC, 1, 0, bytes(32)), "ended the connection", id="only a hello"),
        pytest.param(b"", "ended the connection", id="nothing"),
    ],
)
def test_a_stranger_is_refused(data: bytes, words: str) -> None:
    own, theirs = ends()
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    with refused(words):
        Channel.open(Stream(own.detach(), "machine 1"), 0, 1, KEY, CONTEXT, PATIENCE)


def test_a_machine_that_is_sent_its_own_bytes_refuses_them() -> None:
    own, theirs = ends()

    def reflect() -> None:
        theirs.setblocking(True)
        theirs.sendall(_exactly(theirs, HELLO.size))

    found, _ = at_once(lambda: Channel.open(Stream(own.detach(), "machine 1"), 0, 1, KEY, CONTEXT, PATIENCE), reflect)
    assert isinstance(found, LinkError)


def test_a_silent_stranger_is_refused_at_the_deadline() -> None:
    own, theirs = ends()
    begun = time.monotonic()
    with theirs, refused("before the deadline"):
        Channel.open(Stream(own.detach(), "machine 1"), 0, 1, KEY, CONTEXT, 0.3)
    assert time.monotonic() - begun < 10


def test_a_peer_that_sends_byte_by_byte_does_not_move_the_deadline() -> None:
    relay = Relay()
    relay.first.send(message())
    frame = relay.take()
    stop = threading.Event()

    def drip() -> None:
        for at in range(len(frame) - 1):
            if stop.wait(0.3):
                return
            relay.to_second(frame[at : at + 1])

    dripping = threading.Thread(target=drip)
    dripping.start()
    begun = time.monotonic()
    try:
        with refused("before the deadline"):
            relay.second.receive(SMALL)
    finally:
        stop.set()
        dripping.join()
    assert time.monotonic() - begun < 15


def test_a_frame_that_is_passed_on_unchanged_is_accepted() -> None:
    relay = Relay()
    relay.first.send(message())
    relay.to_second(relay.take())
    (found,) = relay.second.receive(SMALL)
    assert (found == message()[0]).all()


def test_a_replayed_frame_is_refused() -> None:
    relay = Relay()
    relay.first.send(message())
    frame = relay.take()
    relay.to_second(frame + frame)
    relay.second.receive(SMALL)
    with refused("frame 1 instead of frame 2"):
        relay.second.receive(SMALL)


def test_a_replayed_frame_with_the_next_number_is_refused() -> None:
    relay = Relay()
    relay.first.send(message())
    frame = relay.take()
    length, number = HEAD.unpack(frame[: HEAD.size])
    relay.to_second(frame + HEAD.pack(length, number + 1) + frame[HEAD.size :])
    relay.second.receive(SMALL)
    with refused("did not seal"):
        relay.second.receive(SMALL)


def test_frames_in_another_order_are_refused() -> None:
    relay = Relay()
    for _ in range(2):
        relay.first.send(message())
    first, second = relay.take(), relay.take()
    relay.to_second(second + first)
    with refused("frame 2 instead of frame 1"):
        relay.second.receive(SMALL)


def test_a_dropped_frame_is_noticed() -> None:
    relay = Relay()
    for _ in range(2):
        relay.first.send(message())
    relay.take()
    relay.to_second(relay.take())
    with refused("frame 2 instead of frame 1"):
        relay.second.receive(SMALL)


@pytest.mark.parametrize("at", [HEAD.size, -1])
def test_a_changed_frame_is_refused(at: int) -> None:
    relay = Relay()
    relay.first.send(message())
    frame = bytearray(relay.take())
    frame[at] ^= 1
    relay.to_second(bytes(frame))
    with refused("did not seal"):
        relay.second.receive(SMALL)


@pytest.mark.parametrize("length", [0, 1, 27, 29, 2**32 - 1])
def test_a_frame_of_another_length_is_refused_before_it_is_read(length: int) -> None:
    relay = Relay()
    relay.to_second(HEAD.pack(length, 1))
    with refused(f"a frame of {length} bytes instead of 28"):
        relay.second.receive(SMALL)


def test_a_frame_of_another_connection_is_refused() -> None:
    """Both connections have the same key and the same machines."""
    old, new = Relay(), Relay()
    old.first.send(message())
    new.to_second(old.take())
    with refused("did not seal"):
        new.second.receive(SMALL)


def test_a_frame_that_is_sent_back_is_refused() -> None:
    relay = Relay()
    relay.second.send(message())
    relay.to_second(relay.take(relay._second))
    with refused("did not seal"):
        relay.second.receive(SMALL)


def test_contents_are_not_readable() -> None:
    relay = Relay()
    plain = np.frombuffer(b"secret" * 2, np.float32)
    relay.first.send((plain,))
    assert plain.tobytes() not in relay.take()


def test_a_member_with_the_key_cannot_send_another_form() -> None:
    first, second = opened()
    first.send((np.zeros(4, np.float32),))
    with refused("a frame of 32 bytes instead of 28"):
        second.receive(SMALL)


def test_a_truth_value_is_zero_or_one() -> None:
    first, second = opened()
    first.send((np.array([0, 2], np.uint8),))
    with refused("neither 0 nor 1"):
        second.receive((Form(np.dtype("?"), (2,)),))


def test_a_peer_that_ends_is_noticed_at_once() -> None:
    first, second = opened()
    first.close()
    with pytest.raises(LinkClosed):
        second.receive(SMALL)


def test_a_peer_that_reads_nothing_is_noticed_at_the_deadline() -> None:
    left, right = ends()
    streams = Stream(left.detach(), "machine 1"), Stream(os.dup(right.fileno()), "machine 0")
    first, _ = at_once(
        lambda: Channel.open(streams[0], 0, 1, KEY, CONTEXT, 1.0),
        lambda: Channel.open(streams[1], 1, 0, KEY, CONTEXT, 1.0),
    )
    first.send((np.zeros(10**7, np.uint8),))
    with refused("deadline"):
        first.flush()
        first.flush()
