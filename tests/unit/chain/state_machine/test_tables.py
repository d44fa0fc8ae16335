"""What tables refuse, and that no two of them share a prefix."""

from dataclasses import replace
from importlib import import_module

import pytest

from chain.state_machine.ledger.tables import BOND_ROWS, TALLIES, Tally
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import SWEEP, Sweep
from chain.state_machine.proof.tables import SHARES
from chain.state_machine.registry.tables import CLUSTERS
from chain.state_machine.rules import RULES
from chain.state_machine.staking.tables import OPERATORS, REDELEGATION_COUNTS
from chain.state_machine.store import MemoryStore, Overlay
from chain.state_machine.tables import Space
from domain.ledger.records import BondKind, BondRow

S = "chain.state_machine"
OWNERS = (
    "context",
    "queue",
    "gas_price",
    "ledger.tables",
    "feegrant.tables",
    "authz.tables",
    "staking.tables",
    "mint.tables",
    "distribution.tables",
    "registry.tables",
    "slashing.tables",
    "gov.tables",
    "market.tables",
    "legs.tables",
    "proof.tables",
    "disputes.tables",
    "attest.tables",
)
TALLY = Tally(b"o", held=5, fee=9)


@pytest.fixture
def store() -> Overlay:
    return Overlay(MemoryStore())


def test_every_table_is_in_the_value_of_its_component() -> None:
    spaces = {
        value for owner in OWNERS for value in vars(import_module(f"{S}.{owner}")).values() if isinstance(value, Space)
    }
    assert len(spaces) == 128
    assert set(RULES.tables.values()) == spaces


def test_an_update_changes_the_record_as_it_is_now(store: Overlay) -> None:
    TALLIES.put(store, TALLY)
    TALLIES.update(store, b"o", held=7)
    assert TALLIES.update(store, b"o", payments=1) == replace(TALLY, held=7, payments=1)
    assert TALLIES.must(store, b"o") == replace(TALLY, held=7, payments=1)
    SWEEP.put(store, Sweep(5, again=0))
    SWEEP.update(store, again=4)
    assert SWEEP.must(store).again == 4


def test_an_update_needs_a_record_a_field_and_leaves_the_key(store: Overlay) -> None:
    with pytest.raises(LookupError, match="does not exist"):
        TALLIES.update(store, b"o", held=7)
    TALLIES.put(store, TALLY)
    with pytest.raises(LookupError, match="would give another key"):
        TALLIES.update(store, b"o", order_id=b"p")
    with pytest.raises(TypeError):
        TALLIES.update(store, b"o", weight=7)
    assert TALLIES.scan(store) == [TALLY]


def test_a_record_that_does_not_say_where_it_lies_is_not_put(store: Overlay) -> None:
    row = BondRow(BondKind.JOB, "v", 1, 0, 0, 0, 5)
    with pytest.raises(LookupError, match="do not give its key"):
        BOND_ROWS.put(store, row)
    BOND_ROWS.put_at(store, row, b"o", 1, 1, 0, 0, 0)
    assert BOND_ROWS.scan(store, b"o") == list(BOND_ROWS.iterate(store, b"o")) == [row]
    with pytest.raises(LookupError, match="do not give its key"):
        BOND_ROWS.update(store, b"o", 1, 1, 0, 0, 0, amount=6)
    with pytest.raises(LookupError, match="give its key; use put"):
        TALLIES.put_at(store, TALLY, b"p")


def test_marks_numbers_and_bytes(store: Overlay) -> None:
    CLUSTERS.mark(store, "v", "p")
    CLUSTERS.mark(store, "v", "q")
    CLUSTERS.mark(store, "w", "p")
    assert list(CLUSTERS.keys(store, "v")) == [(b"v", b"p"), (b"v", b"q")]
    assert list(CLUSTERS.keys(store, "v", after=("v", "p"))) == [(b"v", b"q")]
    CLUSTERS.delete(store, "v", "p")
    assert [CLUSTERS.has(store, "v", name) for name in ("p", "q")] == [False, True]
    assert REDELEGATION_COUNTS.get(store, "v") == 0
    REDELEGATION_COUNTS.set(store, 7, "v")
    assert REDELEGATION_COUNTS.get(store, "v") == 7
    assert list(REDELEGATION_COUNTS.scan(store)) == [((b"v",), 7)]
    assert OPERATORS.get(store, b"c") is None
    OPERATORS.set(store, b"v", b"c")
    assert OPERATORS.get(store, b"c") == b"v"


def test_a_key_is_what_the_prefix_and_the_parts_make() -> None:
    assert LEGS.key(b"ab", 3) == b"\x30\x02ab\x08" + (3).to_bytes(8, "big")
    assert SHARES.key() == b"\x32"
    with pytest.raises(ValueError, match="byte must be in range"):
        LEGS.key(b"a" * 256)
