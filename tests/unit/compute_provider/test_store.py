"""What is saved is what is loaded, and what a crash left over goes."""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.interfaces import ProviderError
from compute_provider.store import MachineSpeed, Store, locked, runs_as
from domain.keys import ShareKey
from pol.executor.names import Engine
from pol.work.records import Boundary
from tests.unit.compute_provider.support import ORDER_ID, task

KEY = task().key
OTHER = ShareKey(ORDER_ID, 1, 0, 1, 1)


def boundary(index: int, root: bytes = bytes(32)) -> Boundary:
    return Boundary(index, 2 * index, bytes(32), bytes(32), root, (7,))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


def test_the_state_is_loaded_as_it_was_saved(store: Store, tmp_path: Path) -> None:
    one = ShareWork(task(), Stage.TRAINING, 3, 20, 5, 1, "text")
    two = ShareWork(replace(task(), key=OTHER), Stage.READY)
    first = Shares((one, two))
    store.save(Shares(), first)
    assert store.load() == first
    second = first.drop(KEY).put(replace(two, stage=Stage.TRAINING))
    store.save(first, second)
    again = Store(tmp_path)
    assert again.load() == second
    again.close()


def test_a_save_that_fails_changes_nothing_and_the_next_one_is_taken(store: Store) -> None:
    one = Shares((ShareWork(task(), Stage.READY),))
    store._records._sql("CREATE TRIGGER full BEFORE INSERT ON works BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(sqlite3.Error, match="full"):
        store.save(Shares(), one)
    assert store.load() == Shares()
    store._records._sql("DROP TRIGGER full")
    store.save(Shares(), one)
    assert store.load() == one


def test_boundaries_end_at_the_first_gap(store: Store) -> None:
    for index in (0, 1, 3):
        store.put_boundary(KEY, boundary(index))
    store.put_boundary(OTHER, boundary(0))
    assert [b.index for b in store.boundaries(KEY)] == [0, 1]
    store.put_boundary(KEY, boundary(2))
    assert [b.index for b in store.boundaries(KEY)] == [0, 1, 2, 3]
    store.put_boundary(KEY, boundary(1, root=b"\x01" * 32))  # trained again: the last one counts
    assert store.boundaries(KEY)[1].root == b"\x01" * 32


def test_forgetting_one_share_leaves_the_other(store: Store) -> None:
    for key in (KEY, OTHER):
        store.put_boundary(key, boundary(0))
        (store.folder(key) / "0.global").write_bytes(b"x")
    store.forget(KEY)
    assert store.boundaries(KEY) == ()
    assert store.boundaries(OTHER) == (boundary(0),)
    assert (store.folder(OTHER) / "0.global").exists()


def test_what_a_crash_left_over_is_swept(store: Store, tmp_path: Path) -> None:
    for key in (KEY, OTHER):
        store.folder(key)
        store.put_boundary(key, boundary(0))
    store.sweep(Shares((ShareWork(task(), Stage.TRAINING),)))
    assert len(list((tmp_path / "shares").iterdir())) == 1
    assert store.boundaries(KEY) == (boundary(0),)
    assert store.boundaries(OTHER) == ()


def test_a_home_belongs_to_the_first_who_uses_it(store: Store, tmp_path: Path) -> None:
    assert store.belong("chain", "assay-1") == "assay-1"
    assert store.belong("chain", "assay-2") == "assay-1"
    assert store.belong("owner", "assay1me") == "assay1me"


def test_what_was_measured_and_earned_is_kept(store: Store, tmp_path: Path) -> None:
    assert store.measured(Engine("numpy")) is None
    measured = MachineSpeed(10**9, 1 << 30, 1, "native avx2")
    store.put_measured(Engine("numpy"), measured)
    for order_id, amount, day in (
        (ORDER_ID, 1, "2026-01-30"),
        (bytes(32), 5, "2026-01-31"),
        (ORDER_ID, 2, "2026-01-31"),
        (ORDER_ID, 2, "2026-02-01"),
    ):
        store.put_earned(order_id, amount, day)
    again = Store(tmp_path)
    assert again.measured(Engine("numpy")) == measured
    assert again.measured(Engine("torch")) is None
    assert again.earned() == 7
    assert again.earned_by_day() == {"2026-01-31": 6, "2026-01-30": 1}
    assert again.earned_by_order() == {ORDER_ID.hex(): 2, bytes(32).hex(): 5}
    again.close()


def test_a_database_of_another_form_is_said(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "provider.db") as database:
        database.execute("CREATE TABLE works (key TEXT)")
    database.close()
    with pytest.raises(ProviderError, match="use another home"):
        Store(tmp_path)


def test_two_providers_of_one_home_are_refused(tmp_path: Path) -> None:
    refused = pytest.raises(ProviderError, match=f"process {os.getpid()}; stop that provider")
    with locked(tmp_path), refused, locked(tmp_path):
        pass
    assert runs_as(tmp_path) == 0
    with locked(tmp_path):
        assert runs_as(tmp_path) == os.getpid()
