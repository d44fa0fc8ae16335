import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chain.state_machine.ledger.tables import ACCOUNTS
from chain.state_machine.market.tables import BIDS_OF
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.queue import DEADLINES
from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.tables import parts_of
from domain.codec import encode
from domain.ledger.records import Account

KEYS = st.binary(min_size=1, max_size=3)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=2), max_size=12)


@example({}, {b"a\xff": b"1", b"a\xff\xff": b"2", b"b": b"3"}, {b"a\xff\0": b"4"}, b"a\xff", b"")
@example({}, {b"\xff": b"1", b"\xff\xff": b"2", b"\xfe": b"3"}, {}, b"\xff", b"")
@given(CHANGES, CHANGES, CHANGES, st.binary(min_size=1, max_size=2), st.binary(max_size=3))
def test_layers_read_as_one_map(
    first: dict[bytes, bytes | None],
    second: dict[bytes, bytes | None],
    third: dict[bytes, bytes | None],
    prefix: bytes,
    after: bytes,
) -> None:
    store = MemoryStore()
    store.apply(first)
    block = Overlay(store)
    tx = Overlay(block)
    model = dict(first)
    for overlay, changes in ((block, second), (tx, third)):
        for key, value in changes.items():
            overlay.delete(key) if value is None else overlay.put(key, value)
        model.update(changes)
    expected = {key: value for key, value in model.items() if value is not None}

    def check(reader: Overlay | MemoryStore) -> None:
        for key in model:
            assert reader.get(key) == expected.get(key)
        found = [(k, v) for k, v in sorted(expected.items()) if k.startswith(prefix) and k > after]
        assert list(reader.scan(prefix, after)) == found

    check(tx)
    tx.merge_into_parent()
    check(block)
    changes = block.changes()
    assert list(changes) == sorted(changes)
    store.apply(changes)
    check(store)
    assert len(store) == len(expected)


def test_records_are_read_as_they_were_written_on_every_layer() -> None:
    account = Account("alice", 1, 2, b"\x02" * 33)
    store = MemoryStore()
    block = Overlay(store)
    ACCOUNTS.put(block, account)
    tx = Overlay(block)
    assert ACCOUNTS.get(tx, "alice") is account
    assert tx.get(ACCOUNTS.key("alice")) == encode(account)
    store.apply(block.changes())
    fresh = Overlay(store)
    assert ACCOUNTS.get(fresh, "alice") == account
    fresh.put(ACCOUNTS.key("alice"), encode(account))
    assert ACCOUNTS.get(fresh, "alice") == account
    ACCOUNTS.delete(fresh, "alice")
    assert ACCOUNTS.get(fresh, "alice") is None
    assert ACCOUNTS.get(fresh, "bob") is None
    assert ACCOUNTS.get(fresh, "bob") is None


def test_a_dropped_overlay_leaves_no_trace() -> None:
    block = Overlay(MemoryStore())
    tx = Overlay(block)
    tx.put(b"k", b"v")
    assert block.get(b"k") is None
    assert block.changes() == {}
    tx.clear()
    assert tx.get(b"k") is None


def test_only_an_overlay_over_an_overlay_merges() -> None:
    with pytest.raises(TypeError):
        Overlay(MemoryStore()).merge_into_parent()


@given(st.lists(st.binary(max_size=6), max_size=3), st.lists(st.binary(max_size=6), max_size=3))
def test_no_key_is_a_prefix_of_another_with_as_many_parts(left: list[bytes], right: list[bytes]) -> None:
    a, b = SHARES.key(*left), SHARES.key(*right)
    if len(left) == len(right) and left != right:
        assert not a.startswith(b)
    assert parts_of(a) == tuple(left)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_keys_sort_as_their_numbers(a: int, b: int) -> None:
    assert (DEADLINES.key(1, a) < DEADLINES.key(1, b)) == (a < b)


def test_an_account_name_that_is_the_beginning_of_another_is_not_mixed_up() -> None:
    store = Overlay(MemoryStore())
    store.put(BIDS_OF.key("a", b"1"), b"1")
    store.put(BIDS_OF.key("ab", b"2"), b"1")
    assert list(store.scan_keys(BIDS_OF.key("a"))) == [BIDS_OF.key("a", b"1")]
