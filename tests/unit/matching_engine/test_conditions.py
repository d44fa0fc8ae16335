"""Each condition by itself: the last value that passes and the first that fails."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from domain.amount import PFLOP
from domain.market.records import Bid, Conditions, Offer
from matching_engine.conditions import CONDITIONS
from matching_engine.records import AuctionOrder, StandingBid
from tests.support.whole_book import failing, fitting

CLOCK = 100
ORDER = AuctionOrder(
    order_id=b"order",
    rounds=2,
    slots=4,
    share_work=PFLOP,
    outer_work=PFLOP,
    price_limit=7,
    conditions=Conditions(device_class="h100", memory=80, regions=("eu", "uk"), tiers=("exact",)),
    excluded=("assayvaloper1bad",),
    seconds_left=31,  # 5 to accept, two rounds of two turns and an aggregation, 1 s each, and 20
    verify_seconds=20,
    job_bond_bps=1_000,
    opened_height=5,
    payload_bytes=40,
    trial_work=2 * PFLOP,
    accept_seconds=3,
    accept_max=5,
    payload_fee=7,
)
BID = Bid(
    id=b"bid",
    validator="assayvaloper1good",
    offer=Offer(
        price=7,
        slot_speed=PFLOP,
        slots=2,
        device_class="h100",
        memory=80,
        regions=("uk",),
        tiers=("tolerance", "exact"),
        min_work=10 * PFLOP,
        max_work=10 * PFLOP,
        max_payload=40,
        max_job_bond=7,
    ),
    capacity=0,
    expires_at=CLOCK + 1,
    placed_height=4,
)
STANDING = StandingBid(BID, jailed=False, free_capacity=10 * PFLOP, free_bond=7, free_stake=70, worsened_height=4)
ANY = Conditions()


def change_bid(**changes: Any) -> Bid:
    """Return the bid with changes of its own or of what it offers."""
    own = {name: changes.pop(name) for name in ("validator", "expires_at") if name in changes}
    return replace(BID, offer=replace(BID.offer, **changes), **own)


def test_the_names_are_stable() -> None:
    """Consumers and scripts read them; a name that goes away breaks them."""
    assert tuple(row.name for row in CONDITIONS) == (
        "expired",
        "jailed",
        "excluded",
        "firm",
        "price",
        "device_class",
        "memory",
        "regions",
        "tier",
        "min_work",
        "max_work",
        "max_payload",
        "accept",
        "deadline",
        "capacity",
        "stake",
        "bond",
        "least_bond",
    )


def test_the_protocol_lists_them() -> None:
    page = Path("docs/protocol.md").read_text(encoding="utf-8")
    for row in CONDITIONS:
        flags = [", ".join(f"`{option.flag}`" for option in side) for side in (row.asks, row.offers)]
        assert f"\n| `{row.name}` | {row.passes} | {flags[0]} | {flags[1]} |\n" in page


def test_options_are_fields() -> None:
    for options, record in (
        ([row.asks for row in CONDITIONS], Conditions),
        ([row.offers for row in CONDITIONS], Offer),
    ):
        named = [option.field for side in options for option in side]
        free = {"providers_bps"}
        assert sorted(named) == sorted({field.name for field in fields(record)} - free)


def test_everything_exactly_at_its_limit_passes() -> None:
    assert failing(ORDER, CLOCK)(STANDING) == ()
    assert fitting(ORDER, CLOCK)(STANDING)


@pytest.mark.parametrize(
    ("name", "order", "bid", "offer"),
    [
        ("expired", {}, {"expires_at": CLOCK}, {}),
        ("jailed", {}, {}, {"jailed": True}),
        ("excluded", {}, {"validator": "assayvaloper1bad"}, {}),
        ("firm", {}, {}, {"worsened_height": 5}),
        ("price", {"price_limit": 6}, {}, {}),
        ("device_class", {}, {"device_class": "a100"}, {}),
        ("device_class", {}, {"device_class": ""}, {}),
        ("memory", {}, {"memory": 79}, {}),
        ("regions", {}, {"regions": ()}, {}),
        ("regions", {}, {"regions": ("us",)}, {}),
        ("regions", {}, {"regions": ("uk", "us")}, {}),  # the work might leave
        ("tier", {}, {"tiers": ("tolerance",)}, {}),
        ("tier", {}, {"tiers": ()}, {}),
        ("tier", {"conditions": ANY}, {"tiers": ()}, {}),
        ("min_work", {}, {"min_work": 10 * PFLOP + 1}, {}),
        ("max_work", {}, {"max_work": 10 * PFLOP - 1}, {}),
        ("max_payload", {"payload_bytes": 41}, {}, {}),
        ("accept", {"accept_seconds": 4, "seconds_left": 99}, {}, {}),
        ("accept", {"trial_work": 2 * PFLOP + 1, "seconds_left": 99}, {}, {}),
        ("accept", {"seconds_left": 99}, {"slot_speed": PFLOP - 1}, {}),
        ("deadline", {"seconds_left": 30}, {}, {}),
        ("deadline", {"verify_seconds": 21}, {}, {}),
        ("deadline", {"accept_seconds": 4, "accept_max": 6}, {}, {}),
        ("deadline", {"trial_work": 2 * PFLOP + 1, "accept_max": 6}, {}, {}),
        # 3 s and a bit, rounded up.
        ("deadline", {"trial_work": 0, "seconds_left": 30}, {"slot_speed": PFLOP - 1}, {}),
        ("deadline", {"trial_work": 0}, {"slot_speed": 0}, {}),
        ("deadline", {}, {"slots": 1}, {}),  # four turns
        # The second turn of three slots has one, and lasts as long.
        ("deadline", {"seconds_left": 27}, {"slots": 3, "slot_speed": 5 * PFLOP // 2}, {}),
        ("capacity", {}, {}, {"free_capacity": 10 * PFLOP - 1}),
        ("stake", {}, {}, {"free_stake": 69}),
        ("bond", {"payload_fee": 0}, {}, {"free_bond": 6}),
        ("bond", {"payload_fee": 0}, {"max_job_bond": 6}, {}),
        ("least_bond", {"payload_fee": 8}, {}, {}),
        ("least_bond", {"payload_fee": 0, "price_limit": 14}, {"price": 1}, {"free_bond": 6}),
    ],
)
def test_one_step_beyond_fails_on_that_name_alone(
    name: str, order: dict[str, Any], bid: dict[str, Any], offer: dict[str, Any]
) -> None:
    asked = replace(ORDER, **order)
    offered = replace(STANDING, bid=change_bid(**bid), **offer)
    assert failing(asked, CLOCK)(offered) == (name,)
    assert not fitting(asked, CLOCK)(offered)


@pytest.mark.parametrize(
    ("order", "bid"),
    [
        (
            {"conditions": ANY},
            {"device_class": "cpu", "memory": 0, "regions": (), "tiers": ("any",)},
        ),
        ({"conditions": ANY}, {"regions": ("us",)}),
        ({}, {"max_work": 0}),  # no largest order
        ({}, {"max_payload": 0}),
        ({}, {"max_job_bond": 0}),
        ({}, {"min_work": 0}),
        ({"seconds_left": 29}, {"slots": 4}),  # one turn
        ({"seconds_left": 29}, {"slots": 5}),  # more than the order has are of no use
        ({"seconds_left": 32}, {}),  # half a second for each round more, of no use
        ({"accept_seconds": 5, "trial_work": 0}, {}),
        ({}, {"regions": ("uk", "eu")}),
        ({"excluded": ()}, {"validator": "assayvaloper1bad"}),
    ],
)
def test_what_is_not_asked_is_not_checked(order: dict[str, Any], bid: dict[str, Any]) -> None:
    asked = replace(ORDER, **order)
    assert failing(asked, CLOCK)(replace(STANDING, bid=change_bid(**bid))) == ()


def test_every_failed_condition_is_named() -> None:
    hopeless = StandingBid(change_bid(expires_at=0, price=8, memory=0), True, 0, 0, 0)
    assert failing(ORDER, CLOCK)(hopeless) == (
        "expired",
        "jailed",
        "price",
        "memory",
        "capacity",
        "stake",
        "bond",
        "least_bond",
    )


@pytest.mark.parametrize(
    ("work", "price", "limit", "bps", "bond"),
    [
        (10 * PFLOP, 7, 7, 1_000, 7),
        (10 * PFLOP, 7, 7, 1_001, 8),  # 7.007, rounded up
        (10 * PFLOP, 1, 15, 1_000, 8),  # of half the limit, rounded up
        (1, 1, 1, 10_000, 1),  # 10^-15, rounded up
        (1, 1, 1, 1, 1),
        (10 * PFLOP, 7, 7, 0, 0),
        (10 * PFLOP, 0, 0, 10_000, 0),
        (PFLOP * (2**128 - 1), 2**63 - 1, 1, 10_000, (2**128 - 1) * (2**63 - 1)),  # no overflow
    ],
)
def test_job_bond(work: int, price: int, limit: int, bps: int, bond: int) -> None:
    asked = replace(ORDER, rounds=1, slots=1, share_work=work, outer_work=0, price_limit=limit, job_bond_bps=bps)
    assert replace(asked, payload_fee=0).job_bond(price) == bond
    assert replace(asked, payload_fee=10**90).job_bond(price) == 10**90
