"""The way in to a machine of a group: what a program on the network achieves, with and without the group's key."""

import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest

from pol.machines import door as doors
from pol.machines.channel import Channel
from pol.machines.door import PORTS, STRANGERS_MAX, Address, Door, NoPort, port_range
from pol.machines.stream import LinkError, Stream

KEY, CONTEXT = b"k" * 32, b"group 1"
HOST = "127.0.0.1"
ANY = (21_000, 29_000)
PATIENCE = 10.0
GREETING = struct.Struct(">12s32s")
CALL = struct.Struct(">HH32s32s")
Met = Mapping[int, socket.socket]


class Setting:
    """Doors, and their meetings in threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(16)
        self._sockets: list[socket.socket] = []
        self._doors: list[Door] = []
        self._meetings: list[Future[Met]] = []

    def door(self) -> Door:
        self._doors.append(Door(HOST, ANY))
        return self._doors[-1]

    def meet(
        self,
        door: Door,
        own: int,
        peers: Mapping[int, Address],
        key: bytes = KEY,
        context: bytes = CONTEXT,
        seconds: float = PATIENCE,
    ) -> "Future[Met]":
        self._meetings.append(self._threads.submit(door.meet, own, peers, key, context, seconds))
        return self._meetings[-1]

    def call(self, address: Address, source: str = HOST) -> socket.socket:
        """A connection of a stranger."""
        self._sockets.append(socket.create_connection((address.host, address.port), PATIENCE, (source, 0)))
        return self._sockets[-1]

    def close(self) -> None:
        for door in self._doors:
            door.close()
        for meeting in self._meetings:
            with suppress(LinkError):
                for connection in meeting.result(PATIENCE).values():
                    connection.close()
        for each in self._sockets:
            each.close()
        self._threads.shutdown()


@pytest.fixture
def setting() -> Iterator[Setting]:
    made = Setting()
    try:
        yield made
    finally:
        made.close()


def exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        assert piece, "the other side ended the connection"
        data += piece
    return data


def ended(stranger: socket.socket) -> bool:
    """Return True if the other side ends a connection."""
    stranger.settimeout(PATIENCE)
    try:
        return stranger.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def answer_of(met: Met, peer: int) -> Stream:
    return Stream(met[peer].detach(), f"machine {peer}")


def test_machines_meet_and_make_channels(setting: Setting) -> None:
    made = {number: setting.door() for number in (0, 1, 3)}
    met = {}
    for number, own in made.items():
        others = {other: door.address for other, door in made.items() if other != number}
        met[number] = setting.meet(own, number, others)
    found = {number: meeting.result(PATIENCE) for number, meeting in met.items()}
    assert {number: sorted(own) for number, own in found.items()} == {0: [1, 3], 1: [0, 3], 3: [0, 1]}
    with ThreadPoolExecutor(2) as threads:
        ends = [
            threads.submit(Channel.open, answer_of(found[own], other), own, other, KEY, CONTEXT, PATIENCE)
            for own, other in ((1, 3), (3, 1))
        ]
        assert [end.result(PATIENCE).name for end in ends] == ["machine 3", "machine 1"]
    # The system notices a machine that is gone, while another one waits for it.
    kept = found[0][1]
    assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
    # The doors are closed now.
    for own in made.values():
        with pytest.raises(OSError, match="refused"):
            setting.call(own.address)


@pytest.mark.parametrize(
    ("key", "context"),
    [pytest.param(b"x" * 32, CONTEXT, id="another key"), pytest.param(KEY, b"group 2", id="another group")],
)
def test_a_caller_with_another_secret_is_refused(setting: Setting, key: bytes, context: bytes) -> None:
    first, second = setting.door(), setting.door()
    one = setting.meet(first, 0, {1: second.address}, seconds=2.0)
    other = setting.meet(second, 1, {0: first.address}, key, context, 1.5)
    with pytest.raises(LinkError, match="the call was refused"):
        other.result(PATIENCE)
    with pytest.raises(LinkError, match="machine 1 did not call"):
        one.result(PATIENCE)


def test_what_listens_without_the_key_is_refused(setting: Setting) -> None:
    """It sends a greeting, and then any proof, also that of the caller."""
    own = setting.door()
    with socket.create_server((HOST, 0)) as listener:
        meeting = setting.meet(own, 1, {0: Address(HOST, listener.getsockname()[1])}, seconds=1.5)
        for proof in (bytes(32), b""):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(GREETING.pack(b"assay/door/1", bytes(32)))
                *_, theirs = CALL.unpack(exactly(connection, CALL.size))
                connection.sendall(proof or theirs)
                assert ended(connection)
        with pytest.raises(LinkError, match="machine 0 at"):
            meeting.result(PATIENCE)


def genuine(setting: Setting, own: Door, number: int = 1) -> "Future[Met]":
    """A machine of the group that calls machine 0."""
    return setting.meet(setting.door(), number, {0: own.address})


def test_strangers_hold_nobody_up(setting: Setting) -> None:
    """They are silent, send garbage, send a call byte by byte, or leave in the middle, and more than there is room."""
    own = setting.door()
    strangers = [setting.call(own.address) for _ in range(8)]
    meeting = setting.meet(own, 0, {1: Address(HOST, 1)})
    strangers += [setting.call(own.address) for _ in range(2 * STRANGERS_MAX)]
    strangers[0].sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(200))
    strangers[1].sendall(bytes(CALL.size - 1))
    strangers[2].close()
    strangers[3].shutdown(socket.SHUT_WR)
    called = genuine(setting, own)
    assert sorted(meeting.result(PATIENCE)) == [1]
    assert sorted(called.result(PATIENCE)) == [0]
    for stranger in strangers[4:]:
        with suppress(ConnectionError):
            # They get one greeting at most.
            assert len(exactly_or_end(stranger)) <= GREETING.size


def exactly_or_end(source: socket.socket) -> bytes:
    data = b""
    while piece := source.recv(1_000):
        data += piece
    return data


def test_strangers_have_a_number_of_places(setting: Setting) -> None:
    own = setting.door()
    setting.meet(own, 0, {1: Address(HOST, 1)})
    strangers = []
    for _ in range(STRANGERS_MAX):
        strangers.append(setting.call(own.address))
        exactly(strangers[-1], GREETING.size)
    more = setting.call(own.address)
    exactly(more, GREETING.size)
    assert ended(strangers[0])
    strangers[1].settimeout(0.2)
    with pytest.raises(TimeoutError):
        strangers[1].recv(1)


def test_strangers_from_elsewhere_take_no_place_of_a_machine(setting: Setting) -> None:
    """A machine that needs long for its proof keeps its place, however many strangers call from other addresses."""
    own = setting.door()
    setting.meet(own, 0, {1: Address(HOST, 1)})
    slow = setting.call(own.address)
    exactly(slow, GREETING.size)
    for _ in range(STRANGERS_MAX + 4):
        exactly(setting.call(own.address, "127.0.0.2"), GREETING.size)
    slow.settimeout(0.2)
    with pytest.raises(TimeoutError):
        slow.recv(1)


def test_a_stranger_that_is_silent_or_slow_ends_at_the_deadline(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "CALL_SECONDS", 1.0)
    own = setting.door()
    setting.meet(own, 0, {1: Address(HOST, 1)})
    silent, slow = setting.call(own.address), setting.call(own.address)
    begun = time.monotonic()
    stop = threading.Event()

    def drip() -> None:
        with suppress(OSError):
            while not stop.wait(0.2):
                slow.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        for stranger in (silent, slow):
            exactly(stranger, GREETING.size)
            assert ended(stranger)
    finally:
        stop.set()
        dripping.join()
    assert time.monotonic() - begun < 10


def recorded_call(setting: Setting) -> bytes:
    """Return the bytes of a call of machine 1 to machine 0. A stranger between them has recorded it."""
    first = setting.door()
    answered = setting.meet(first, 0, {1: Address(HOST, 1)})
    with socket.create_server((HOST, 0)) as listener:
        caller = setting.meet(setting.door(), 1, {0: Address(HOST, listener.getsockname()[1])})
        connection, _ = listener.accept()
        with connection:
            forward = setting.call(first.address)
            connection.sendall(exactly(forward, GREETING.size))
            call = exactly(connection, CALL.size)
            forward.sendall(call)
            connection.sendall(exactly(forward, 32))
            # One that only passes bytes on changes nothing.
            assert sorted(answered.result(PATIENCE)) == [1]
            assert sorted(caller.result(PATIENCE)) == [0]
    return call


def test_a_recorded_call_is_worthless(setting: Setting) -> None:
    """The group, its key and its machines are the same."""
    call = recorded_call(setting)
    own = setting.door()
    meeting = setting.meet(own, 0, {1: Address(HOST, 1)}, seconds=1.5)
    stranger = setting.call(own.address)
    exactly(stranger, GREETING.size)
    stranger.sendall(call)
    assert ended(stranger)
    with pytest.raises(LinkError, match="machine 1 did not call"):
        meeting.result(PATIENCE)


def test_a_call_for_another_machine_is_refused(setting: Setting) -> None:
    """The call is genuine, but a stranger passes it on to another machine."""
    second = setting.door()
    meeting = setting.meet(second, 2, {3: Address(HOST, 1)}, seconds=2.0)
    caller = setting.meet(setting.door(), 3, {0: second.address}, seconds=1.5)
    with pytest.raises(LinkError, match="machine 3 did not call"):
        meeting.result(PATIENCE)
    with pytest.raises(LinkError, match="the call was refused"):
        caller.result(PATIENCE)


def test_a_member_that_is_not_expected_is_refused(setting: Setting) -> None:
    own = setting.door()
    meeting = setting.meet(own, 0, {1: Address(HOST, 1)}, seconds=2.0)
    other = setting.meet(setting.door(), 7, {0: own.address}, seconds=1.5)
    with pytest.raises(LinkError, match="machine 1 did not call"):
        meeting.result(PATIENCE)
    with pytest.raises(LinkError, match="the call was refused"):
        other.result(PATIENCE)


def test_a_machine_is_not_reached_by_its_own_greeting(setting: Setting) -> None:
    """Somebody reflects a caller's bytes: the proof of the called side is another one than that of the caller."""
    own = setting.door()
    with socket.create_server((HOST, 0)) as listener:
        meeting = setting.meet(own, 1, {0: Address(HOST, listener.getsockname()[1])}, seconds=1.0)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(GREETING.pack(b"assay/door/1", b"g" * 32))
            call = exactly(connection, CALL.size)
            connection.sendall(call[-32:])
            assert ended(connection)
        with pytest.raises(LinkError):
            meeting.result(PATIENCE)


def test_a_machine_that_calls_again_is_let_in_again(setting: Setting) -> None:
    """The answer to its first call was lost."""
    own = setting.door()
    meeting = setting.meet(own, 0, {1: Address(HOST, 1), 2: Address(HOST, 1)})
    first = genuine(setting, own).result(PATIENCE)
    second = genuine(setting, own).result(PATIENCE)
    assert ended(first[0])
    genuine(setting, own, 2).result(PATIENCE)
    met = meeting.result(PATIENCE)
    met[1].send(b"x")
    second[0].setblocking(True)
    assert second[0].recv(1) == b"x"


def test_a_door_that_is_closed_ends_its_meeting(setting: Setting) -> None:
    own = setting.door()
    meeting = setting.meet(own, 1, {0: Address(HOST, 1), 2: Address(HOST, 1)})
    own.close()
    with pytest.raises(LinkError):
        meeting.result(5.0)
    never = setting.door()
    never.close()
    with pytest.raises(LinkError, match="closed"):
        never.meet(0, {1: Address(HOST, 1)}, KEY, CONTEXT, PATIENCE)
    with pytest.raises(OSError, match="refused"):
        setting.call(never.address)


def test_a_machine_without_a_firewall_rule_is_named(setting: Setting) -> None:
    meeting = setting.meet(setting.door(), 1, {0: Address(HOST, 1)}, seconds=0.5)
    with pytest.raises(LinkError, match=r"machine 0 at 127\.0\.0\.1 port 1 cannot be reached: Connection refused"):
        meeting.result(PATIENCE)


def test_only_the_ports_of_the_range_are_used(setting: Setting) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NoPort, match="ASSAY_MACHINE_PORTS"):
            Door(HOST, (port, port))
    assert setting.door().address.port in range(ANY[0], ANY[1] + 1)


def test_a_range_of_ports() -> None:
    assert port_range("") == PORTS
    assert port_range("7000-7010") == (7000, 7010)
    for wrong in ("7000", "7010-7000", "0-9", "1-65536", "a-b", "-"):
        with pytest.raises(NoPort, match="range of ports"):
            port_range(wrong)
