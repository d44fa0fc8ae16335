"""Typed records on disk: what is written is read, all or nothing, and what is damaged costs itself only."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from domain import codec
from host.records import Lost, Records, RecordTable, Unusable


@dataclass(frozen=True, slots=True)
class Pair:
    """A record for these tests."""

    name: str
    data: bytes


PAIRS = RecordTable("pairs", Pair, (bytes, int))
FACTS = RecordTable("facts", str, (str,))


def opened(path: Path, form: int = 1) -> Records:
    return Records(path / "r.db", (PAIRS, FACTS), codec, form)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = opened(tmp_path)
    yield made
    made.close()


def test_what_is_written_is_read_also_after_opening_again(records: Records, tmp_path: Path) -> None:
    records.put(PAIRS, Pair("one", b"\0"), b"a", 1)
    records.put(PAIRS, Pair("two", b"\1"), b"a", 1)
    records.put(FACTS, "this", "owner")
    records.close()
    again = opened(tmp_path)
    assert again.get(PAIRS, b"a", 1) == Pair("two", b"\1")
    assert again.get(PAIRS, b"a", 2) is None
    assert again.get(FACTS, "owner") == "this"
    again.close()


def test_records_are_found_by_the_beginning_of_their_keys_and_in_their_order(
    records: Records,
) -> None:
    for name, key in enumerate([(b"b", 1), (b"a", 10), (b"a", 9)]):
        records.put(PAIRS, Pair(str(name), b""), *key)
    assert records.keys(PAIRS) == [(b"a", 9), (b"a", 10), (b"b", 1)]
    assert [key for key, _ in records.scan(PAIRS, b"a")] == [(b"a", 9), (b"a", 10)]
    records.delete(PAIRS, b"a", 9)
    assert records.keys(PAIRS) == [(b"a", 10), (b"b", 1)]
    records.delete(PAIRS, b"a")
    assert [pair.name for _, pair in records.scan(PAIRS)] == ["0"]


def test_a_part_of_a_key_is_no_place_for_a_record(records: Records) -> None:
    with pytest.raises(ValueError, match="has 2 parts"):
        records.put(PAIRS, Pair("", b""), b"a")


def test_a_transaction_that_fails_writes_nothing_and_the_next_one_works(records: Records) -> None:
    def fail() -> None:
        with records.transaction():
            records.put(FACTS, "1", "a")
            with records.transaction():
                records.put(FACTS, "2", "b")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert records.keys(FACTS) == []
    with records.transaction(), records.transaction():
        records.put(FACTS, "3", "c")
    assert records.keys(FACTS) == [("c",)]


def test_what_cannot_be_read_is_set_aside_alone(records: Records, tmp_path: Path) -> None:
    records.put(PAIRS, Pair("one", b""), b"a", 1)
    records.put(PAIRS, Pair("two", b""), b"a", 2)
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.execute("UPDATE pairs SET record = ? WHERE k1 = 2", (b'{"name":1}',))
    (lost,) = records.set_aside_damaged()
    assert lost == Lost("pairs", (b"a", 2), lost.reason)
    assert "Pair" in lost.reason
    assert records.keys(PAIRS) == [(b"a", 1)]
    assert records.set_aside_damaged() == []
    with sqlite3.connect(tmp_path / "r.db") as database:
        rows = database.execute("SELECT name, record FROM damaged").fetchall()
    assert rows == [("pairs (b'a', 2)", b'{"name":1}')]


def test_a_file_of_another_form_is_refused_in_a_sentence(records: Records, tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"r\.db has records of version 1, .* needs version 2; move the file"):
        opened(tmp_path, form=2)


def test_a_database_of_somebody_else_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.execute("CREATE TABLE orders (record BLOB)")
    with pytest.raises(Unusable, match="has records of version 0"):
        opened(tmp_path)
    with sqlite3.connect(tmp_path / "r.db") as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("orders",)]


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.db").write_bytes(b"junk" * 1_000)
    with pytest.raises(Unusable, match=r"r\.db cannot be used .*restore it from a backup"):
        opened(tmp_path)


def test_two_programs_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.put(FACTS, "1", "a")
    assert second.get(FACTS, "a") == "1"
    first.close()
    second.close()


def test_a_reader_beside_the_program_that_writes_sees_all_and_writes_nothing(records: Records, tmp_path: Path) -> None:
    records.put(FACTS, "this", "owner")
    reader = Records(tmp_path / "r.db", (PAIRS, FACTS), codec, 1, read_only=True)
    before = reader.version
    assert reader.get(FACTS, "owner") == "this"
    assert reader.version == before
    records.put(FACTS, "that", "owner")
    assert reader.version != before
    assert reader.get(FACTS, "owner") == "that"
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.put(FACTS, "other", "owner")
    reader.close()


def test_a_reader_makes_no_file_and_takes_no_other_form(records: Records, tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="is not there"):
        Records(tmp_path / "none.db", (), codec, 1, read_only=True)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(Unusable, match="version 1, but this program reads version 2"):
        Records(tmp_path / "r.db", (), codec, 2, read_only=True)


def test_records_of_a_program_that_has_ended_are_read(records: Records, tmp_path: Path) -> None:
    records.put(FACTS, "this", "owner")
    records.close()
    reader = Records(tmp_path / "r.db", (), codec, 1, read_only=True)
    assert reader.get(FACTS, "owner") == "this"
    reader.close()
