"""What the disk has to hold before a share is taken."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from compute_provider.decide import actions as do
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.interfaces import Honest
from compute_provider.perform import Performer
from compute_provider.store import Store
from tests.unit.compute_provider import support as s

BOUNDARIES = 6  # of the tiny task


@pytest.fixture
def performer(tmp_path: Path) -> Iterator[Performer]:
    chain: Any = SimpleNamespace(
        order=lambda order_id: s.order(),
        account=lambda address: SimpleNamespace(bond=SimpleNamespace(free=10**15), balance=0),
    )
    config, store = s.config(tmp_path), Store(tmp_path)
    made = Performer(config, s.CHAIN, chain, chain, store=store, behaviour=Honest(), shares=Shares, stop=Event())
    yield made
    made.close()
    made.blobs.close()
    store.close()


def problem(performer: Performer) -> str:
    """Return what speaks against the task, or an empty string."""
    (change,) = performer.perform(do.CheckTask(s.task())).changes
    (work,) = change(Shares((ShareWork(s.task(), Stage.CHECKING),))).works
    assert (work.stage is Stage.BONDING) is not bool(work.text)
    return work.text


def needed() -> int:
    task = s.task()
    states = task.global_in.blob.size + task.local_in.blob.size
    return s.terms().payload_bytes + s.terms().data_bytes + (BOUNDARIES + 1) * states


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_trace_that_the_disk_has_no_room_for_is_not_begun(
    performer: Performer, monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    free = SimpleNamespace(free=needed() - lacking)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert ("there is room for" in problem(performer)) is bool(lacking)


def test_what_is_there_already_needs_no_room(
    performer: Performer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed() - 100))
    (performer._store.folder(s.task().key) / "0.global").write_bytes(bytes(100))
    assert problem(performer) == ""


def test_what_the_owner_allows_is_the_bound(performer: Performer) -> None:
    performer._config = replace(performer._config, disk_bytes=needed() - 1)
    assert "there is room for" in problem(performer)
