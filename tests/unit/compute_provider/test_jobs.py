"""What the disk has to hold before a share is taken."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compute_provider.jobs import Jobs
from compute_provider.store import Store
from tests.unit.compute_provider import support as s

BOUNDARIES = 11  # of the tiny task


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    chain: Any = SimpleNamespace(
        order=lambda order_id: s.order(),
        account=lambda address: SimpleNamespace(bond=SimpleNamespace(free=10**15), balance=0),
    )
    config, store = s.config(tmp_path), Store(tmp_path)
    link: Any = None
    made = Jobs(config, s.CHAIN, chain, chain, link=link, store=store)
    yield made
    made.close()
    store.close()


def needed() -> int:
    task = s.task()
    states = task.global_in.blob.size + task.local_in.blob.size
    return s.terms().payload_bytes + (BOUNDARIES + 1) * states


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_trace_that_the_disk_has_no_room_for_is_not_begun(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    free = SimpleNamespace(free=needed() - lacking)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert ("there is room for" in jobs.check(s.task())) is bool(lacking)


def test_what_is_there_already_needs_no_room(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed() - 100))
    (jobs._store.folder(s.task().key) / "0.global").write_bytes(bytes(100))
    assert jobs.check(s.task()) == ""


def test_what_the_owner_allows_is_the_bound(jobs: Jobs) -> None:
    jobs._config = replace(jobs._config, disk_bytes=needed() - 1)
    assert "there is room for" in jobs.check(s.task())
