"""Connections of strangers: too many of them go, from where there are the most, and nobody else's."""

import socket
from contextlib import ExitStack
from pathlib import Path

from link import types as t
from link.limiter import connected, too_many
from link.rates import ServerLimits
from tests.support.waiting import wait_until
from tests.unit.link.support import running
from tests.unit.link.test_receiving import ELSEWHERE, HELD, LOCAL, is_closed, probe


def test_idle_connections_of_strangers_make_room(tmp_path: Path) -> None:
    """Whoever is known keeps its connection, and whoever comes gets one, though strangers took all there were."""
    limits = ServerLimits(
        connections=40,
        stranger_connections=20,
        stranger_connections_per_network=8,
        handshake_seconds=HELD,
    )
    with running(tmp_path, limits=limits) as up, up.client() as known, ExitStack() as stack:
        known.call(t.POLL, t.PollRequest("1", ()))
        (kept,) = connected(up.server.port)
        host, _, port = up.endpoint.rpartition(":")
        opened = [
            stack.enter_context(socket.create_connection((host, int(port)), 5, source_address=(source, 0)))
            for source in (*LOCAL * 20, *ELSEWHERE)
        ]
        wait_until(lambda: sum(map(is_open, opened)) <= 20, "the end of some")
        assert sum(map(is_open, opened[:20])) <= 8
        assert sum(map(is_open, opened[20:])) >= 10  # and no more than had to
        probe(up)
        assert kept in connected(up.server.port)
        known.call(t.POLL, t.PollRequest("1", ()))


def is_open(connection: socket.socket) -> bool:
    return not is_closed(connection)


def test_the_oldest_of_the_largest_group_go() -> None:
    held = [(name, name[0]) for name in ("a1", "b1", "b2", "b3", "c1", "c2", "b4")]
    assert too_many(held, 7, 4) == []
    assert too_many(held, 7, 2) == ["b1", "b2"]
    assert too_many(held, 5, 4) == ["b1", "b2"]
    assert too_many(held, 3, 4) == ["b1", "b2", "b3", "c1"]
    assert sorted(too_many(held, 0, 4)) == sorted(name for name, _ in held)
    assert too_many([], 0, 0) == []
