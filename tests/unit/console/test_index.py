"""The index: without gaps, there after a restart, built again for another chain, quick with many orders."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from console.index.records import BlockRow
from console.index.writing import EventIndex, Gap
from domain.market.records import OrderState
from tests.support.told_market import many_orders
from tests.unit.console.conftest import Told


def test_it_goes_on_from_its_last_number(told: Told, tmp_path: Path) -> None:
    path, events = tmp_path / "console" / "index.db", told.market.logged
    index = EventIndex(path)
    index.begin("chain", "first")
    index.add(events[:40])
    index.close()
    again = EventIndex(path)
    try:
        assert not again.in_memory
        assert (again.next, again.chain) == (41, ("chain", "first"))
        again.add(events[40:])
        whole = told.console.index
        assert again.orders()[0] == whole.orders()[0]
        assert again.pots() == whole.pots()
        assert again.events(1, 10_000) == events
    finally:
        again.close()


def test_a_gap_is_refused_and_changes_nothing(told: Told) -> None:
    index, events = EventIndex(), told.market.logged
    index.add(events[:10])
    for wrong in (events[11:], events[5:], [*events[10:12], events[13]]):
        with pytest.raises(Gap, match="is missing"):
            index.add(wrong)
        assert index.next == 11
    index.close()


def test_another_chain_begins_anew(told: Told) -> None:
    index = EventIndex()
    index.add(told.market.logged)
    index.add_blocks([BlockRow(1, 1, b"")])
    index.begin("other", "")
    assert (index.next, index.orders(), index.blocks(10)) == (1, ([], 0), [])
    assert not any(index.pots().values())
    index.close()


def test_a_file_that_is_no_index_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"no database at all" * 100)
    index = EventIndex(path)
    assert index.next == 1
    index.close()


def test_a_file_of_another_version_is_built_again(told: Told, tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index = EventIndex(path)
    index.begin("chain", "first")
    index.add(told.market.logged)
    index.close()
    with closing(sqlite3.connect(path)) as older:
        older.executescript("DROP TABLE orders; CREATE TABLE orders (id); PRAGMA user_version = 7;")
    again = EventIndex(path)
    try:
        assert (again.in_memory, again.next, again.chain) == (False, 1, ("", ""))
        again.add(told.market.logged)
        assert again.orders()[1] == 3
    finally:
        again.close()


def test_a_second_console_keeps_its_index_in_memory(tmp_path: Path) -> None:
    first, second = EventIndex(tmp_path / "index.db"), EventIndex(tmp_path / "index.db")
    assert (first.in_memory, second.in_memory) == (False, True)
    first.close()
    second.close()


def test_lists_of_a_thousand_orders(told: Told) -> None:
    index = EventIndex()
    sample = told.market.order(told.waiting)
    index.add(many_orders(sample, 1, 1_000, 7))
    rows, count = index.orders(state=int(OrderState.OPEN), limit=50, offset=950)
    assert (count, len(rows)) == (1_000, 50)
    assert rows[-1].order_id == bytes(32)
    assert index.orders(state=int(OrderState.CLOSED))[1] == 0
    assert index.orders(consumer="nobody")[1] == 0
    assert index.find_orders("000003e7000003e7") == [(999).to_bytes(4, "big") * 8]
    index.close()
