"""Calls over wires that delay, cut, copy, fall silent or trickle: an answer, or a clear error within the deadline."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from link import types as t
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.rates import ServerLimits
from link.tls import make_certificate
from tests.support.broken_wire import BrokenWire, Damage
from tests.unit.link.support import CHAIN, PROVIDER, Running, running

BLOB = Random(1).randbytes(5 * t.CHUNK_BYTES_MAX // 2)
POLL = t.PollRequest("1", ())
SECONDS = 60.0
"""Time for a busy machine, beside the deadlines that the calls state."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("validator")) as server:
        yield server


@contextmanager
def through(
    up: Running, damage: Damage, timeout: float = 10.0, tries: int = 4
) -> Iterator[tuple[ClusterClient, BrokenWire]]:
    with (
        BrokenWire(up.endpoint, damage) as wire,
        ClusterClient(wire.endpoint, up.certificate.der, PROVIDER, CHAIN, timeout, tries=tries) as client,
    ):
        yield client, wire


def failure(call: Callable[[], object], deadline: float) -> ClusterError:
    """Return the error of a call, which comes within ``deadline`` seconds and those of a busy machine."""
    begun = time.monotonic()
    with pytest.raises(ClusterError) as error:
        call()
    assert time.monotonic() - begun < deadline + SECONDS
    assert error.value.reason
    return error.value


def test_a_late_wire_only_takes_longer(up: Running, tmp_path: Path) -> None:
    with through(up, Damage(delay=0.02), timeout=SECONDS) as (client, _):
        blob = client.put_blob(BLOB)
        client.get_blob(blob, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == BLOB


def test_a_transfer_continues_over_connections_that_are_cut(up: Running, tmp_path: Path) -> None:
    """Each connection lasts for a chunk and a half, so that each but the last is cut in the middle of a call."""
    blob_bytes = BLOB[::-1]
    with through(up, Damage(cut_after=3 * t.CHUNK_BYTES_MAX // 2), timeout=SECONDS, tries=8) as (client, wire):
        blob = client.put_blob(blob_bytes)
        client.get_blob(blob, tmp_path / "again")
        assert wire.connections > 2
    assert (tmp_path / "again").read_bytes() == blob_bytes


def test_a_wire_that_cuts_every_connection_is_unreachable(up: Running) -> None:
    with through(up, Damage(cut_after=0), timeout=5.0, tries=3) as (client, _):
        error = failure(lambda: client.call(t.POLL, POLL), 3 * 5.0)
    assert error.kind is ClusterErrorKind.UNREACHABLE


@pytest.mark.parametrize("silent_after", [0, 3_000], ids=["from the start", "after the handshake"])
def test_a_half_open_connection_ends_at_the_deadline(up: Running, silent_after: int) -> None:
    with through(up, Damage(silent_after=silent_after), timeout=3.0, tries=1) as (client, _):
        error = failure(lambda: client.call(t.POLL, POLL), 3.0)
    assert error.kind in (ClusterErrorKind.TIMED_OUT, ClusterErrorKind.UNREACHABLE)


def test_one_byte_a_second_ends_at_the_deadline(up: Running) -> None:
    with through(up, Damage(byte_seconds=1.0), timeout=4.0, tries=1) as (client, _):
        error = failure(lambda: client.call(t.POLL, POLL), 4.0)
    assert error.kind in (ClusterErrorKind.TIMED_OUT, ClusterErrorKind.UNREACHABLE)


def test_the_server_ends_a_caller_that_sends_one_byte_a_second(tmp_path: Path) -> None:
    with running(tmp_path, limits=ServerLimits(handshake_seconds=1.0)) as server:
        host, _, port = server.endpoint.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as slow:
            begun = time.monotonic()
            slow.sendall(b"\x16")
            assert slow.recv(1) == b"", "the server waits for a caller that does not go on"
            assert time.monotonic() - begun < 1.0 + SECONDS
        with server.client() as client:
            assert client.call(t.POLL, POLL)


def test_copied_bytes_break_one_connection_and_the_next_one_serves(up: Running) -> None:
    asked = len(up.answers.asked)
    with through(up, Damage(copied=1), timeout=SECONDS) as (client, wire):
        assert client.call(t.POLL, POLL) == up.answers.poll_reply
        assert wire.connections == 2
    assert len(up.answers.asked) == asked + 1


def test_a_connection_that_is_sent_again_reaches_no_handler(up: Running) -> None:
    with through(up, Damage()) as (client, wire):
        client.call(t.POLL, POLL)
        asked = len(up.answers.asked)
        wire.send_again(1)
        assert len(up.answers.asked) == asked
        assert client.call(t.POLL, POLL) == up.answers.poll_reply


def test_another_certificate_than_the_one_on_chain_is_refused_before_anything_is_sent(
    up: Running, tmp_path: Path
) -> None:
    other = make_certificate(tmp_path / "tls")
    asked = len(up.answers.asked)
    with ClusterClient(up.endpoint, other.der, PROVIDER, CHAIN, 5.0, tries=2) as client:
        error = failure(lambda: client.call(t.POLL, POLL), 2 * 5.0)
    assert error.kind is ClusterErrorKind.UNREACHABLE
    assert len(up.answers.asked) == asked
