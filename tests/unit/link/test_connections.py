"""Connections to other validators: one each, to where the chain says they are now."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from domain.registry.records import Validator
from link import types as t
from link.client import Connections
from link.errors import ClusterError, ClusterErrorKind
from tests.unit.link.support import AUDITOR, CHAIN, Running, running

REQUEST = t.OpeningRequest(bytes(32), 1, 0, 0)


@pytest.fixture
def connections() -> Iterator[Connections]:
    made = Connections(AUDITOR)
    yield made
    made.close()


def record(up: Running, **changes: object) -> Validator:
    made = Validator("v1", "", b"", b"", 1, False, up.endpoint, up.certificate.der, 0, 0, 0, 0)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_validator_has_one_connection(connections: Connections, tmp_path: Path) -> None:
    with running(tmp_path) as up:
        with ThreadPoolExecutor(8) as threads:
            found = set(threads.map(lambda _: connections.client(record(up), CHAIN), range(32)))
        (client,) = found
        assert not client.call(t.GET_OPENING, REQUEST).ready
        assert connections.client(record(up, operator="v2"), CHAIN) is not client


def test_a_validator_that_moved_is_called_where_it_is(connections: Connections, tmp_path: Path) -> None:
    """With the certificate that it has now, and no other."""
    with running(tmp_path / "old") as old, running(tmp_path / "new") as new:
        before = connections.client(record(old), CHAIN)
        assert not before.call(t.GET_OPENING, REQUEST).ready
        after = connections.client(record(new), CHAIN)
        assert not after.call(t.GET_OPENING, REQUEST).ready
        with pytest.raises(ClusterError):  # whoever still has it asks for the new one
            before.call(t.GET_OPENING, REQUEST)
        wrong = connections.client(record(new, certificate=old.certificate.der), CHAIN)
        with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.UNREACHABLE):
            wrong.call(t.GET_OPENING, REQUEST)
        assert not connections.client(record(new), CHAIN).call(t.GET_OPENING, REQUEST).ready


@pytest.mark.parametrize("missing", [{"endpoint": ""}, {"certificate": b""}])
def test_a_validator_that_published_nothing_is_unreachable(
    connections: Connections, tmp_path: Path, missing: dict[str, object]
) -> None:
    with (
        running(tmp_path) as up,
        pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.UNREACHABLE),
    ):
        connections.client(record(up, **missing), CHAIN)


@pytest.mark.parametrize("bad", [{"endpoint": "no such host:x"}, {"certificate": b"junk" * 99}])
def test_nonsense_on_the_chain_is_unreachable(connections: Connections, tmp_path: Path, bad: dict[str, object]) -> None:
    with (
        running(tmp_path) as up,
        pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.UNREACHABLE),
    ):
        connections.client(record(up, **bad), CHAIN).call(t.GET_OPENING, REQUEST)


def test_everything_is_closed_at_the_end(connections: Connections, tmp_path: Path) -> None:
    with running(tmp_path) as up:
        client = connections.client(record(up), CHAIN)
        connections.close()
        with pytest.raises(ClusterError):
            client.call(t.GET_OPENING, REQUEST)
