"""Placing, changing and withdrawing bids."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.registry.tables import VALIDATORS
from domain.amount import MONEY_MAX, WORK_MAX
from domain.errors import (
    BAD_FIELD,
    DEADLINE_PASSED,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YOURS,
    UNSUPPORTED,
    WRONG_STATE,
)
from domain.hashing import hash_fields, u32, u64
from domain.limits import BIDS_PER_VALIDATOR_MAX
from domain.market.messages import MsgChangeBid, MsgWithdrawBid
from domain.market.queries import BidsRequest
from domain.market.records import Bid, OrderState
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import OFFERED, PRICE, Market, bid


@pytest.fixture
def market() -> Market:
    return Market(bidders=())


def place(market: Market, **changes: Any) -> bytes:
    result = market.chain.ok(bid("v0", **changes))
    ((_, bid_id),) = result.tx_results[0].responses
    return bid_id


def bids(market: Market) -> tuple[Bid, ...]:
    found: tuple[Bid, ...] = market.chain.ask(BidsRequest("", 0, b"")).bids
    return found


def offered(name: str) -> str:
    """Return a field's path in the message."""
    return f"offer.{name}" if name in OFFERED else name


def change(bid_id: bytes, **changes: Any) -> MsgChangeBid:
    return replace(MsgChangeBid("v0", bid_id, PRICE * 2, 77, 500), **changes)


def test_a_bid_stands_under_the_id_of_sender_sequence_and_index(market: Market) -> None:
    account = market.chain.account("v0")
    assert account is not None
    bid_id = place(market, regions=("de", "fr"))
    assert bid_id == hash_fields("assay/bid", CHAIN_ID, "v0", u64(account.sequence), u32(0))
    (found,) = bids(market)
    assert (found.id, found.validator, found.offer.price, found.offer.regions) == (
        bid_id,
        "v0",
        PRICE,
        ("de", "fr"),
    )
    assert found.expires_at == market.chain.clock + 100_000
    assert market.chain.seen("bid.placed")[-1].get("bid") == bid_id.hex()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price", 0),
        ("price", MONEY_MAX + 1),
        ("device_class", ""),
        ("device_class", "x" * 33),
        ("memory", -1),
        ("slot_speed", 0),
        ("slots", 0),
        ("slots", 1_025),
        ("capacity", 0),
        ("capacity", WORK_MAX + 1),
        ("regions", ("fr", "de")),
        ("regions", ("de", "de")),
        ("regions", tuple(f"r{n:02}" for n in range(17))),
        ("tiers", ("",)),
        ("tiers", ("exact", "exact")),
        ("tiers", tuple(f"t{n:02}" for n in range(17))),
        ("min_work", -1),
        ("max_work", WORK_MAX + 1),
        ("providers_bps", 8_001),
        ("duration", 0),
        ("duration", 366 * 86_400 + 1),
    ],
)
def test_fields_are_bounded(market: Market, name: str, value: Any) -> None:
    market.chain.refused(BAD_FIELD, bid("v0", **{name: value}), field=offered(name))


def test_work_bounds_are_in_order(market: Market) -> None:
    market.chain.refused(BAD_FIELD, bid("v0", min_work=5, max_work=4), field="offer.max_work")
    market.chain.ok(bid("v0", min_work=5, max_work=0), bid("v0", min_work=5, max_work=5))


def test_a_tier_must_be_one_that_is_run(market: Market) -> None:
    market.chain.refused(UNSUPPORTED, bid("v0", tiers=("gold",)), field="offer.tiers[0]")
    market.chain.refused(UNSUPPORTED, bid("v0", tiers=("exact", "gold")), field="offer.tiers[1]")


def test_a_bid_without_a_tier_could_serve_no_order(market: Market) -> None:
    market.chain.refused(BAD_FIELD, bid("v0", tiers=()), field="offer.tiers")


def test_only_validators_bid(market: Market) -> None:
    market.chain.refused(NOT_FOUND, bid("carol"))


def test_a_jailed_or_hidden_validator_does_not_bid(market: Market) -> None:
    for broken in ({"jailed": True}, {"endpoint": ""}):
        validator = VALIDATORS.must(market.chain.overlay(), "v0")
        market.chain.change(lambda o, v=validator, b=broken: VALIDATORS.put(o, replace(v, **b)))  # type: ignore[misc]
        market.chain.refused(WRONG_STATE, bid("v0"))
        market.chain.change(lambda o, v=validator: VALIDATORS.put(o, v))  # type: ignore[misc]


def test_a_validator_has_a_bounded_number_of_bids(market: Market) -> None:
    market.chain.ok(*[bid("v0")] * BIDS_PER_VALIDATOR_MAX)
    market.chain.refused(LIMIT_REACHED, bid("v0"))
    market.chain.ok(bid("v1"))


def test_a_changed_bid_is_new_to_the_book(market: Market) -> None:
    order_id = market.submit()
    bid_id = place(market, price=PRICE + 1, duration=400)
    assert market.order(order_id).state is OrderState.OPEN
    market.chain.ok(change(bid_id, price=PRICE, capacity=10**12))
    assert market.order(order_id).state is OrderState.MATCHED
    (found,) = bids(market)
    assert found.placed_height == market.chain.height
    assert found.expires_at == market.chain.clock + 500


def test_a_bid_is_changed_and_withdrawn_by_its_owner_only(market: Market) -> None:
    bid_id = place(market)
    market.chain.refused(NOT_YOURS, change(bid_id, validator="v1"))
    market.chain.refused(NOT_YOURS, MsgWithdrawBid("v1", bid_id))
    market.chain.refused(NOT_FOUND, change(bytes(32)))
    market.chain.refused(NOT_FOUND, MsgWithdrawBid("v0", bytes(32)))
    market.chain.ok(MsgWithdrawBid("v0", bid_id))
    assert bids(market) == ()
    market.chain.refused(NOT_FOUND, MsgWithdrawBid("v0", bid_id))


@pytest.mark.parametrize(("name", "value"), [("bid_id", b"x"), ("price", 0), ("capacity", -1), ("duration", 0)])
def test_changes_are_bounded(market: Market, name: str, value: Any) -> None:
    bid_id = place(market)
    market.chain.refused(BAD_FIELD, replace(change(bid_id), **{name: value}), field=name)


def test_a_withdrawal_names_a_bid(market: Market) -> None:
    market.chain.refused(BAD_FIELD, MsgWithdrawBid("v0", b"x"), field="bid_id")


def test_a_bid_closes_when_it_expires_and_not_before(market: Market) -> None:
    bid_id = place(market, duration=5)
    expiry = bids(market)[0].expires_at
    market.chain.pass_until(expiry - 1)
    assert len(bids(market)) == 1
    market.chain.block()
    assert bids(market) == ()
    assert market.chain.seen("bid.closed")[-1].get("reason") == "expired"
    market.chain.refused(NOT_FOUND, change(bid_id))


def test_an_expired_bid_is_dead_before_the_queue_gets_to_it() -> None:
    market = Market(bidders=())
    bid_id = place(market, duration=5)
    market.chain.drop_queue()
    market.chain.pass_time(5)
    assert len(bids(market)) == 1
    market.chain.refused(DEADLINE_PASSED, change(bid_id))
    market.chain.refused(DEADLINE_PASSED, MsgWithdrawBid("v0", bid_id))
    order_id = market.submit()
    assert market.order(order_id).state is OrderState.OPEN
    assert market.order(order_id).unmatched == (("expired", 1),)
