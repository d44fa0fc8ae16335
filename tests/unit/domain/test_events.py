"""Every change of the state survives the way over the wire."""

from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.attest.evidence import Policy
from domain.authz.records import AuthorizationGrant
from domain.distribution.records import DistributionTotals, ValidatorRewards
from domain.events import Event, to_event
from domain.feegrant.records import FeeGrant
from domain.gov.records import Tally
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.events import PaymentMade
from domain.market.events import OrderClosed
from domain.market.records import Bid, Order
from domain.mint.records import Minter
from domain.proof.events import SeatSilent, ShareCompared, ShareRejected
from domain.proof.records import AuditPlace, Finding
from domain.registry.records import Capability
from domain.slashing.records import Evidence
from domain.staking.records import CommissionRates, Description
from domain.vocabulary import KINDS, read_event
from tests.support.bounded import sample

WORDS = st.text("abcxyz0189.", min_size=1, max_size=9)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-1, 2**63),
    str: WORDS,
    bytes: st.binary(min_size=32, max_size=32),
    tuple[str, ...]: st.lists(WORDS, max_size=3).map(tuple),
    tuple[int, ...]: st.lists(st.integers(0, 99), max_size=3).map(tuple),
    tuple[tuple[str, int], ...]: st.lists(st.tuples(WORDS, st.integers(0, 9))).map(tuple),
    RoundKey: st.builds(RoundKey, st.binary(min_size=32, max_size=32), st.just(1), st.just(2)),
}
VALUES[tuple[bytes, ...]] = st.lists(VALUES[bytes], max_size=2).map(tuple)
VALUES |= {
    cls: st.just(sample(cls))
    for cls in (
        Order,
        Bid,
        Capability,
        AuditPlace,
        Finding,
        CommissionRates,
        Description,
        Evidence,
        FeeGrant,
        Tally,
        AuthorizationGrant,
        Policy,
        DistributionTotals,
        Minter,
        ValidatorRewards,
    )
}
VALUES[ShareKey] = VALUES[RoundKey].map(lambda key: key.share(3, 4))
VALUES[PanelKey] = VALUES[RoundKey].map(lambda key: key.panel(2))


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_change_survives_the_way(kind: str, data: st.DataObject) -> None:
    cls: Any = KINDS[kind]
    hints = get_type_hints(cls)
    change = cls(*[data.draw(VALUES[hints[field.name]]) for field in fields(cls)])
    event = to_event(change, 7)
    assert (event.type, event.number) == (kind, 7)
    assert read_event(event) == change


def test_keys_lists_and_counts_are_attributes_as_they_always_were() -> None:
    order = b"\x01" * 32
    key = ShareKey(order, 1, 0, 2, 3)
    round_fields = (("order", order.hex()), ("leg", "1"), ("round", "0"))
    share = (*round_fields, ("slot", "2"), ("issue", "3"))
    assert to_event(ShareRejected(key, "p", 10_105, was_accepted=False), 1).attributes == (
        *share,
        ("provider", "p"),
        ("reason", "10105"),
        ("was_accepted", "false"),
        ("segment", "0"),
    )
    silent = SeatSilent(PanelKey(order, 1, 0, 4), "v1", 2, (0, 3), 5)
    assert to_event(silent, 1).attributes == (
        *round_fields,
        ("dispute", "4"),
        ("auditor", "v1"),
        ("stage", "2"),
        ("places", "0,3"),
        ("cut", "5"),
    )
    closed = OrderClosed(order, 2, 5, (("price", 4), ("tier", 1)))
    assert to_event(closed, 1).attributes == (
        ("order", order.hex()),
        ("reason", "2"),
        ("refunded", "5"),
        ("price", "4"),
        ("tier", "1"),
    )


def test_other_events_are_no_change_and_odd_attributes_are_refused() -> None:
    assert read_event(Event("transfer", (("amount", "1uassay"),))) is None
    paid = to_event(PaymentMade(b"\x02" * 32, "a", "provider", 5, 0, 0, 0, 0), 1)
    for odd in (
        paid.attributes[1:],
        (*paid.attributes, ("more", "1")),
        (("other", "x"), *paid.attributes[1:]),
        (*paid.attributes[:-1], ("issue", "x")),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 -- the texts are Python's where int() refuses
            read_event(Event("payment", odd))
    key = RoundKey(b"", 1, 0).share(0, 1)
    compared = to_event(ShareCompared(key, "p", True, 0, 0, 0, 0), 1).attributes
    bent = tuple((name, "1" if name == "right" else text) for name, text in compared)
    with pytest.raises(ValueError, match="neither true nor false"):
        read_event(Event("share.compared", bent))
