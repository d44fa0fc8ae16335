"""Places at the server: who gets one, who loses his, and what counts as one network."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from link.errors import ClusterError, ClusterErrorKind
from link.server_slots import PEERS_MAX, KnownPeers, ServerSlot, ServerSlots, network_of
from tests.unit.link.test_rates import Clock


class Crowd:
    """Calls by their names, as a server sees them come; each is of the group that its name begins with."""

    def __init__(self, places: ServerSlots, stack: ExitStack) -> None:
        self.places, self.stack = places, stack
        self.cancelled: list[str] = []

    def comes(self, name: str) -> ServerSlot:
        return self.stack.enter_context(self.places.take(name[0], lambda: self.cancelled.append(name)))


@contextmanager
def crowd(count: int, share: int, working: int = 1) -> Iterator[Crowd]:
    with ExitStack() as stack:
        yield Crowd(ServerSlots(count, share, working), stack)


def busy() -> "pytest.RaisesExc[ClusterError]":
    return pytest.raises(ClusterError, check=lambda error: error.kind is ClusterErrorKind.BUSY)


def test_who_has_the_most_places_makes_room() -> None:
    with crowd(count=4, share=3) as calls:
        for name in ("a1", "b1", "b2", "c1"):
            calls.comes(name)
        calls.comes("d1")
        assert calls.cancelled == ["b1"]
        calls.comes("d2")  # d would have as many as nobody else
        assert calls.cancelled == ["b1", "d1"]
        assert len(calls.places) == 4


def test_a_group_at_its_share_makes_room_itself() -> None:
    with crowd(count=9, share=2) as calls:
        for name in ("a1", "b1", "b2", "b3", "b4"):
            calls.comes(name)
        assert calls.cancelled == ["b1", "b2"]


def test_what_is_worked_on_keeps_its_place() -> None:
    with crowd(count=9, share=1) as calls:
        first = calls.comes("a1")
        with first.work(), busy():
            calls.comes("a2")
        assert calls.cancelled == []
        calls.comes("a3")


def test_a_message_that_waits_is_told_that_its_place_is_gone() -> None:
    """It is here, so it is answered, not cut off; and it waits no longer."""
    with crowd(count=9, share=1) as calls:
        with calls.comes("b1").work():
            waiting = calls.comes("a1")
            waiting.arrived = True
            calls.comes("a2")
            with busy(), waiting.work():
                raise AssertionError("it has no place")
        assert calls.cancelled == []


def test_a_place_ends_with_its_call() -> None:
    places = ServerSlots(2, 2, 1)
    for _ in range(5):
        with places.take("a", lambda: None) as place, place.work():
            assert len(places) == 1
    assert len(places) == 0


def test_a_connection_is_known_for_a_while() -> None:
    clock = Clock()
    peers = KnownPeers(10, clock)
    assert peers.caller("ipv4:1.2.3.4:5") is None
    peers.prove("ipv4:1.2.3.4:5", "p0")
    assert peers.caller("ipv4:1.2.3.4:5") == "p0"
    assert peers.caller("ipv4:1.2.3.4:6") is None
    clock.now = 10
    assert peers.caller("ipv4:1.2.3.4:5") is None


def test_the_connection_that_was_quiet_longest_is_forgotten() -> None:
    peers = KnownPeers(10, Clock())
    peers.prove("quiet", "p0")
    peers.prove("busy", "p1")
    for number in range(PEERS_MAX - 1):
        peers.prove(str(number), "crowd")
        peers.prove("busy", "p1")
    assert (peers.caller("quiet"), peers.caller("busy")) == (None, "p1")


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("ipv4:10.1.2.3:5000", "10.1.2.0/24"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:5000", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::]:5000", "2001:db8:1:2::/64"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", "fe80::/64"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:5000", "10.1.2.0/24"),
        ("unix:", "unix:"),
    ],
)
def test_a_network_is_what_one_owner_has(peer: str, network: str) -> None:
    assert network_of(peer) == network
