"""The auction in the block: who gets an order, what is reserved, and who waits."""

from dataclasses import replace
from random import Random

import pytest

from chain.state_machine.market import auction
from chain.state_machine.market.auction import share_of
from chain.state_machine.market.tables import ORDERS, SWEEP
from chain.state_machine.registry.members import get_promised
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.errors import WRONG_STATE
from domain.ledger.messages import MsgDepositBond, MsgWithdrawBond
from domain.market.events import OrderExcluded
from domain.market.messages import MsgCancelOrder, MsgChangeBid, MsgWithdrawBid
from domain.market.queries import (
    BidsRequest,
    OrdersRequest,
    SimulateMatchRequest,
    ValidatorBacking,
)
from domain.market.records import Bid, Conditions, Offer, Order, OrderState
from domain.messages import Message
from domain.node.params import NodeParams
from domain.params import Params, local_params
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from domain.vocabulary import changes_of
from matching_engine.book import Book
from matching_engine.match import Reads, match
from matching_engine.records import AuctionOrder, StandingBid
from pol.rules.panels import Promised
from pol.rules.schedule import round_seconds
from pol.rules.tiers.table import tier_named
from pol.rules.tiers.tier import Tier
from tests.support.chain_market import ANY, BOND, PRICE, Market, bid, due_gas, make_terms, submit
from tests.support.four_bytes import registered

WORK = 160_000_000

EXACT = Conditions(tiers=("exact",))


def validator_of(market: Market, order_id: bytes) -> str:
    return market.leg(order_id).validator


def test_the_cheapest_bid_wins_and_is_the_price() -> None:
    market = Market(bidders=())
    cheap = bid("v2", price=PRICE // 2)
    market.chain.ok(bid("v1"), cheap, bid("v3", price=PRICE * 2))
    order_id = market.submit()
    leg = market.leg(order_id)
    assert (leg.validator, leg.price, leg.work) == ("v2", PRICE // 2, WORK)
    assert leg.job_bond == 8_000
    matched = market.chain.seen("order.matched")[-1]
    assert (matched.get("validator"), matched.get("job_bond")) == ("v2", "8000")


@pytest.mark.parametrize("flipped", [False, True])
def test_an_order_is_matched_after_its_own_block(flipped: bool) -> None:
    market = Market(bidders=())
    items: list[Message] = [submit(), bid("v0")]
    result = market.chain.ok(*(items[::-1] if flipped else items))
    ids = dict(found for tx in result.tx_results for found in tx.responses)
    assert market.order(ids["order_id"]).state is OrderState.OPEN
    market.auction()
    assert validator_of(market, ids["order_id"]) == "v0"


@pytest.mark.parametrize("blocks", [0, 1])
def test_nobody_who_saw_an_order_goes_below_a_rival(blocks: int) -> None:
    """In the order's own block, or in that of its auction, v1 lowers its price to just below that of v0."""
    market = Market(bidders=())
    dear = bid("v1", price=2 * PRICE)
    market.chain.ok(bid("v0"), dear)
    (found,) = market.chain.ask(BidsRequest("v1", 0, b"")).bids
    lower = MsgChangeBid("v1", found.id, PRICE - 1, found.capacity, 100_000)
    order = market.chain.tx(submit(price_limit=3 * PRICE, deposit=1_032_400))
    if blocks:
        order_id = market.chain.ok(order).tx_results[0].responses[0][1]
        market.chain.ok(lower)
    else:
        order_id = market.chain.ok(order, lower).tx_results[0].responses[0][1]
        market.auction()
    assert (validator_of(market, order_id), market.leg(order_id).price) == ("v0", PRICE)


@pytest.mark.parametrize("way", ["raise", "withdraw", "less", "shorter"])
def test_who_raises_its_price_on_seeing_an_order_loses_it(way: str) -> None:
    """The only bidder asks for the whole limit in the order's block; a newcomer serves it instead."""
    market = Market(bidders=())
    market.chain.ok(bid("v0"), bid("v0", price=5 * PRICE))
    cheap, _ = sorted(market.chain.ask(BidsRequest("v0", 0, b"")).bids, key=lambda found: found.offer.price)
    change = MsgChangeBid("v0", cheap.id, cheap.offer.price, cheap.capacity, 100_001)
    ways: dict[str, Message] = {
        "raise": replace(change, price=5 * PRICE),
        "withdraw": MsgWithdrawBid("v0", cheap.id),
        "less": replace(change, capacity=1),
        "shorter": replace(change, duration=10),
    }
    away = ways[way]
    order = submit(price_limit=5 * PRICE, deposit=1_720_400)
    order_id = market.chain.ok(order, away).tx_results[0].responses[0][1]
    market.chain.ok(bid("v0", price=5 * PRICE))
    market.chain.pass_time(3)
    assert market.order(order_id).state is OrderState.OPEN
    assert dict(market.order(order_id).unmatched)["firm"] == (2 if way == "withdraw" else 3)
    market.chain.ok(bid("v1", price=2 * PRICE))
    assert (validator_of(market, order_id), market.leg(order_id).price) == ("v1", 2 * PRICE)
    # Orders that come after it are for all that stands.
    again = market.submit(order)
    assert market.leg(again).price == (PRICE if way == "shorter" else 2 * PRICE)


def test_an_absurdly_low_bid_risks_as_much_as_an_honest_one() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0", price=1))
    assert market.leg(market.submit()).job_bond == 8_000  # a tenth of half the limit
    small = market.submit(submit(terms=make_terms(rounds=1, step_work=1), price_limit=1))
    assert market.leg(small).job_bond == market.order(small).params.payload_fee


def test_a_bid_says_how_much_it_risks_for_an_order() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0", max_job_bond=15_999))
    assert market.order(market.submit()).unmatched == (("bond", 1),)
    market.chain.ok(bid("v1", max_job_bond=16_000))
    assert validator_of(market, market.submit()) == "v1"


def test_a_change_of_a_bid_frees_nothing_that_is_sold() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0", capacity=WORK + 1))
    market.submit()
    (found,) = market.chain.ask(BidsRequest("", 0, b"")).bids
    for capacity in (0, WORK + 1):
        market.chain.ok(MsgChangeBid("v0", found.id, PRICE, capacity, 100_000))
    (found,) = market.chain.ask(BidsRequest("", 0, b"")).bids
    assert (found.capacity, found.reserved, found.free) == (WORK + 1, WORK, 1)
    second = market.submit()
    assert market.order(second).unmatched == (("capacity", 1),)
    market.chain.ok(MsgChangeBid("v0", found.id, PRICE, 2 * WORK, 100_000))
    assert market.order(second).state is OrderState.MATCHED


def test_junk_below_every_price_is_not_tried_when_the_book_changes() -> None:
    """A thousandth of it would be a block's tries; a change of a bid is answered in its own block."""
    market = Market(local_params().replace(due_gas=due_gas(tries=2)), bidders=("v0",))
    junk = [market.submit(submit(price_limit=1)) for _ in range(10)]
    order_id = market.submit(submit(conditions=Conditions(device_class="gpu")))
    tried = len(market.chain.seen("order.unmatched"))
    assert tried == 11
    market.chain.ok(bid("v1", device_class="gpu"))
    assert validator_of(market, order_id) == "v1"
    assert SWEEP.get(market.chain.overlay()) is None
    market.chain.ok(bid("v2", price=1))
    for _ in range(30):
        market.auction()
    assert {market.order(found).state for found in junk} == {OrderState.MATCHED}


def test_the_order_of_transactions_does_not_matter() -> None:
    outcomes = []
    for flipped in (False, True):
        market = Market(bidders=(), consumers=tuple(f"c{n}" for n in range(6)))
        items: list[Message] = [bid(name, capacity=2 * WORK) for name in market.validators]
        items += [submit(f"c{number}") for number in range(6)]
        market.chain.ok(*(items[::-1] if flipped else items))
        market.auction()
        orders = market.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders
        outcomes.append({order.consumer: validator_of(market, order.id) for order in orders})
    assert outcomes[0] == outcomes[1]
    assert len(set(outcomes[0].values())) > 1


def test_ties_are_broken_by_the_previous_blocks_beacon_and_by_nothing_of_this_block() -> None:
    winners = set()
    for number in range(8):
        market = Market(bidders=())
        market.chain.ok(bid("v0"), bid("v1"))
        market.chain.block(value=market.chain.value(number), block_hash=b"\xee" * 32)
        result = market.chain.block(submit(), value=market.chain.value(99))
        market.auction()
        winners.add(validator_of(market, result.tx_results[0].responses[0][1]))
    assert winners == {"v0", "v1"}
    for number in range(4):
        market = Market(bidders=())
        market.chain.ok(bid("v0"), bid("v1"))
        market.chain.block(block_hash=bytes([number]) * 32)
        result = market.chain.block(submit(), value=market.chain.value(7), block_hash=bytes([number]) * 32)
        # The block of the auction chooses nothing either.
        market.chain.block(value=market.chain.value(number), seconds=0)
        winners.discard(validator_of(market, result.tx_results[0].responses[0][1]))
    assert len(winners) == 1


def test_an_unmatched_order_says_why_once_and_again_when_it_changes() -> None:
    market = Market(bidders=())
    order_id = market.submit(submit(conditions=Conditions(device_class="gpu")))
    assert market.order(order_id).unmatched == ()
    assert len(market.chain.seen("order.unmatched")) == 1
    market.chain.ok(bid("v0"))
    assert market.order(order_id).unmatched == (("device_class", 1),)
    market.chain.pass_time(5)
    market.chain.ok(bid("v1", price=PRICE + 1))  # more than it would pay: not tried
    assert market.order(order_id).unmatched == (("device_class", 1),)
    market.chain.ok(bid("v1", price=PRICE - 1))
    assert market.order(order_id).unmatched == (("price", 1), ("device_class", 3))
    assert len(market.chain.seen("order.unmatched")) == 3
    assert market.chain.seen("order.unmatched")[-1].get("device_class") == "3"
    market.chain.ok(bid("v2", device_class="gpu"))
    assert validator_of(market, order_id) == "v2"


def test_capacity_is_reserved_at_the_match_and_freed_at_the_end() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0", capacity=WORK + 1))
    first = market.submit()
    (standing,) = market.chain.ask(BidsRequest("", 0, b"")).bids
    assert (standing.reserved, standing.free) == (WORK, 1)
    second = market.submit(submit(time_to_live=200))
    assert market.order(second).unmatched == (("capacity", 1),)
    market.accept(first)
    market.settle(first)
    assert market.order(first).state is OrderState.CLOSED
    assert validator_of(market, second) == "v0"


def test_a_job_bond_must_be_free() -> None:
    market = Market(bidders=("v0",))
    market.chain.ok(MsgWithdrawBond("v0", BOND - 15_999))
    order_id = market.submit()
    assert market.order(order_id).unmatched == (("bond", 1),)
    market.chain.ok(MsgDepositBond("v0", 1))
    assert validator_of(market, order_id) == "v0"
    assert market.chain.bond("v0") == 0


def test_a_bond_that_returns_lets_the_auction_try_again() -> None:
    """The first order's end returns the job bond: then the second can be backed."""
    market = Market(bidders=("v0",))
    market.chain.ok(MsgWithdrawBond("v0", BOND - 16_000))
    first = market.run()
    second = market.submit(submit(time_to_live=400))
    assert market.order(second).unmatched == (("bond", 1), ("least_bond", 1))
    market.settle(first)
    assert market.order(first).state is OrderState.CLOSED
    assert validator_of(market, second) == "v0"


def test_who_left_the_validator_set_gets_no_matches() -> None:
    market = Market(bidders=("v0",), stake=10**6)

    def cut(overlay: Overlay) -> None:
        validator = VALIDATORS.must(overlay, "v0")
        VALIDATORS.put(overlay, replace(validator, stake=10**6 - 1))

    market.chain.checked = False
    market.chain.change(cut)
    order_id = market.submit()
    assert market.order(order_id).unmatched == (("jailed", 1),)
    market.chain.refused(WRONG_STATE, bid("v0"), field="validator")


def test_a_validator_whose_kin_are_all_who_could_audit_gets_no_match() -> None:
    market = Market(validators=3, bidders=("v0",))
    chain = market.chain
    kin = ("v1", "v2")
    chain.ok(*(MsgRegisterProvider(name, "v0") for name in kin))
    chain.ok(*(MsgAdmitProvider("v0", name) for name in kin))
    order_id = market.submit()
    chain.block()
    order = market.order(order_id)
    assert order.state is OrderState.OPEN
    assert order.excluded == ("v0",)
    assert list(changes_of(OrderExcluded, chain.events)) == [OrderExcluded(order_id, "v0")]


def test_live_legs_are_never_worth_more_than_the_stake() -> None:
    market = Market(bidders=(), stake=10**6)  # six orders of 160,000 fit
    market.chain.ok(bid("v0"), bid("v0", price=PRICE - 1))
    market.chain.ok(*[submit()] * 8)
    market.auction()
    orders = market.chain.ask(OrdersRequest("carol", "", 0, 0, b"")).orders
    states = sorted(order.state for order in orders)
    assert states == [OrderState.OPEN] * 2 + [OrderState.MATCHED] * 6
    market.chain.block()
    waiting = market.chain.ask(OrdersRequest("carol", "", 1, 0, b"")).orders
    assert all(order.unmatched == (("stake", 2),) for order in waiting)
    answer = market.chain.ask(BidsRequest("", 0, b""))
    assert answer.backings == (ValidatorBacking("v0", 10**6 - 6 * 160_000, 10**9 - 6 * 16_000),)


@pytest.mark.parametrize(("bond", "stake"), [(BOND, 10**6), (111_999, 10**10)])
def test_what_one_validator_cannot_back_goes_to_the_next_bid_in_the_same_block(bond: int, stake: int) -> None:
    """Seven orders of 160,000 at once, of which six fit its stake, or its bond account."""
    market = Market(bidders=(), stake=stake)
    if bond < BOND:
        market.chain.ok(MsgWithdrawBond("v0", BOND - bond))
    market.chain.ok(bid("v0", price=PRICE - 2), bid("v0", price=PRICE - 1), bid("v1"))
    market.chain.ok(*[submit()] * 7)
    market.auction()
    orders = market.chain.ask(OrdersRequest("carol", "", 0, 0, b"")).orders
    assert sorted(validator_of(market, order.id) for order in orders) == ["v0"] * 6 + ["v1"]


def test_a_deadline_leaves_time_to_accept_to_train_and_to_verify() -> None:
    market = Market(bidders=("v0",))
    # 62 s to accept. A round is 42,000,000 FLOPs after each other at 10^9 FLOP/s: a second, twice. Then five stages
    # of a panel, one of them repeated, each of 61 s to commit and 60 to reveal after a lot of at most 4 s.
    late, right = (market.submit(submit(deadline=end, conditions=EXACT)) for end in (688, 689))
    assert market.order(late).unmatched == (("deadline", 1),)
    assert market.order(right).state is OrderState.MATCHED


def test_a_deadline_leaves_time_for_the_challenges_of_the_slowest_tier_that_the_order_allows() -> None:
    market = Market(bidders=("v0",))
    late, right = (market.submit(submit(deadline=end)) for end in (708, 709))
    assert market.order(late).unmatched == (("deadline", 1),)
    assert market.order(right).state is OrderState.MATCHED


@pytest.mark.parametrize(("slots", "seconds"), [(1, 80), (2, 42), (9, 42)])
def test_slots_that_wait_for_each_other_take_longer(slots: int, seconds: int) -> None:
    """As long as the chain itself expects a round to take, and no second less."""
    market = Market(local_params().replace(accept_max=200), bidders=())
    market.chain.ok(bid("v0", slot_speed=10**6, slots=slots))
    terms, rounds = make_terms(), 2
    assert round_seconds(terms, 10**6, slots) == seconds
    needed = 60 + 1 + 64 + rounds * seconds + 625
    late, right = (market.submit(submit(deadline=needed - early, conditions=EXACT)) for early in (1, 0))
    assert market.order(late).unmatched == (("deadline", 1),)
    market.accept(right)
    leg = market.leg(right)
    assert (leg.slot_speed, leg.slots_at_once) == (10**6, slots)
    assert leg.progress_deadline == market.chain.clock + 180 + 3 * seconds


def test_a_block_matches_a_bounded_number_and_the_oldest_first() -> None:
    market = Market(local_params().replace(due_gas=due_gas(fills=3)), bidders=())
    first = [market.submit() for _ in range(2)]
    market.chain.ok(*[submit()] * 5)
    for _ in range(2):
        market.chain.block()
    market.chain.ok(bid("v0"))
    assert [market.order(order_id).state for order_id in first] == [OrderState.MATCHED] * 2

    def matched() -> int:
        return len(market.chain.seen("order.matched"))

    counts = [matched()]
    for _ in range(3):
        market.chain.block()
        counts.append(matched())
    assert counts == [3, 6, 7, 7]


def test_old_orders_that_no_bid_serves_do_not_hold_up_a_new_one() -> None:
    """Thirty old orders that would pay what changed, and a book that changes in every block: passes without end."""
    market = Market(local_params().replace(due_gas=due_gas(tries=4)), bidders=("v0",))
    gpu = replace(ANY, device_class="gpu")
    for _ in range(30):
        market.submit(submit(conditions=gpu))
    for number in range(6):
        market.chain.ok(bid("v1", device_class="tpu"))
        order_id = market.submit(submit(time_to_live=100 + number))
        assert market.order(order_id).state is OrderState.MATCHED


@pytest.mark.parametrize("bids", [0, 1, 100_000])
def test_a_block_tries_375_orders_at_any_size_of_the_book(bids: int) -> None:
    """With the defaults of a public network: each order asks for something else, and no bid serves it in time."""
    share = share_of(Params().of(NodeParams).due_gas)
    assert share.tries >= 375
    random, conditions = Random(1), Conditions()
    book = Book(
        StandingBid(
            Bid(
                number.to_bytes(4, "big"),
                f"v{number // 50}",
                Offer(
                    price=random.randint(1, 10**6),
                    slot_speed=random.randint(1, 10**6),
                    tiers=("exact",),
                ),
                0,
                99,
                0,
            ),
            False,
            random.randint(1, 10**18),
            10**9,
            10**9,
        )
        for number in range(bids)
    )
    orders = [
        AuctionOrder(
            number.to_bytes(4, "big"),
            1,
            1,
            10**9 + number,
            0,
            10**6,
            conditions,
            (),
            99,
            10,
            1_000,
            1,
        )
        for number in range(share.tries)
    ]
    waited = frozenset(order.order_id for order in orders[: share.tries // 2])
    matched = match(orders, book, b"seed", 0, share.fills, Reads(share.reads, waited))
    assert len(matched.unmatched) == share.tries
    assert not matched.carried


def test_where_a_block_has_one_try_new_and_old_orders_take_turns() -> None:
    """Passes over five old orders begin again in every block; new orders are tried meanwhile, and then the old ones."""
    market = Market(local_params().replace(due_gas=due_gas(tries=1)), bidders=("v0",))
    gpu = replace(ANY, device_class="gpu")
    old = [market.submit(submit(conditions=gpu)) for _ in range(5)]
    market.chain.pass_time(20)
    market.chain.ok(bid("v1", device_class="tpu"))
    for number in range(3):
        market.chain.ok(bid("v1", device_class="tpu"))
        result = market.chain.ok(submit(time_to_live=100 + number))
        order_id = result.tx_results[0].responses[0][1]
        assert SWEEP.get(market.chain.overlay()) is not None
        for _ in range(2):
            market.chain.block()
        assert market.order(order_id).state is OrderState.MATCHED
    market.chain.ok(bid("v2", device_class="gpu"))
    for _ in range(6):
        market.chain.block()
    assert {market.order(order_id).state for order_id in old} == {OrderState.MATCHED}


def test_orders_that_read_too_much_are_tried_by_a_later_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two old orders have a book of equal prices to draw from, and reads for one; they hold up no new order."""
    # One read in a block: after an order that reads, no other is tried.
    monkeypatch.setattr(auction, "BOOK_READ_GAS", 10**9)
    market = Market(bidders=())
    waiting = [market.submit() for _ in range(3)]
    market.chain.ok(bid("v0"), bid("v1"), submit())
    states = [market.order(order_id).state for order_id in waiting]
    assert states.count(OrderState.MATCHED) == 1
    assert SWEEP.get(market.chain.overlay()) is not None
    for _ in range(4):
        market.chain.block()
    orders = market.chain.ask(OrdersRequest("carol", "", 0, 0, b"")).orders
    assert {order.state for order in orders} == {OrderState.MATCHED}


def test_the_auditors_of_orders_alike_are_looked_up_once_in_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = []

    def counted(store: Overlay) -> list[Promised]:
        looked_up.append(1)
        return get_promised(store)

    tested: list[int] = []

    def counted_tier(name: str) -> Tier:
        tier = tier_named(name)

        def may_sit(order: Order, speed: int, rate: int) -> bool:
            tested.append(1)
            return tier.may_sit(order, speed, rate)

        return replace(tier, may_sit=may_sit)

    monkeypatch.setattr(auction, "get_promised", counted)
    monkeypatch.setattr(auction, "tier_named", counted_tier)
    market = Market(bidders=("v0",))
    market.chain.checked = False
    market.chain.ok(*[submit()] * 9)
    market.auction()
    assert len(market.chain.seen("order.matched")) == 9
    assert len(looked_up) == 1
    assert len(tested) == len(market.validators)


def test_a_book_that_changes_during_a_pass_is_tried_again_by_all() -> None:
    market = Market(local_params().replace(due_gas=due_gas(tries=2)), bidders=())
    asked = replace(ANY, memory=10)
    for _ in range(5):
        market.submit(submit(conditions=asked))
    market.chain.ok(bid("v0", memory=1))  # fits nobody: a pass of three blocks begins
    market.chain.ok(bid("v1", memory=10))  # in its midst
    market.chain.pass_time(8)
    assert len(market.chain.seen("order.matched")) == 5


def test_changes_of_one_block_are_one_pass() -> None:
    market = Market(local_params().replace(due_gas=due_gas(tries=2)), bidders=())
    for _ in range(4):
        market.submit(submit(conditions=replace(ANY, memory=10)))
    market.chain.ok(bid("v0", memory=1), bid("v1", memory=1))  # two of four are tried
    market.chain.block()
    assert SWEEP.get(market.chain.overlay()) is not None
    market.chain.block()
    assert SWEEP.get(market.chain.overlay()) is None


def test_a_cancelled_or_expired_order_is_not_matched() -> None:
    market = Market(bidders=())
    cancelled, expiring = market.submit(), market.submit(submit(time_to_live=5))
    market.chain.ok(MsgCancelOrder("carol", cancelled))
    market.chain.pass_until(ORDERS.must(market.chain.overlay(), expiring).expires_at - 1)
    market.chain.ok(bid("v0"))
    assert market.order(expiring).state is OrderState.CLOSED


@pytest.mark.parametrize(
    ("asked", "offered", "tier"),
    [
        (("four-bytes", "exact"), ("exact", "four-bytes"), "four-bytes"),
        (("four-bytes", "exact"), ("exact",), "exact"),
        ((), ("four-bytes", "exact"), "exact"),
        (("exact",), ("four-bytes",), ""),
    ],
)
def test_a_leg_has_the_first_tier_of_its_order_that_the_bid_offers(
    asked: tuple[str, ...], offered: tuple[str, ...], tier: str
) -> None:
    with registered():
        market = Market(bidders=())
        market.chain.ok(bid("v0", tiers=offered))
        order_id = market.submit(submit(conditions=Conditions(tiers=asked)))
        if tier:
            assert market.leg(order_id).tier == tier
            (matched,) = market.chain.seen("order.matched")
            assert matched.get("tier") == tier
        else:
            assert market.order(order_id).state is OrderState.OPEN
            assert market.order(order_id).unmatched == (("tier", 1),)


def test_a_quote_is_what_the_auction_does() -> None:
    market = Market(bidders=())
    market.chain.ok(bid("v0"), bid("v1", price=PRICE - 1), bid("v2", device_class="gpu"))
    request = SimulateMatchRequest(Conditions(device_class="cpu", tiers=("exact",)), PRICE, 1_000, make_terms())
    quoted = market.chain.ask(request)
    assert [found.validator for found in quoted.bids] == ["v1", "v0"]
    assert quoted.unmatched == (("device_class", 1),)
    order_id = market.submit(submit(conditions=Conditions(device_class="cpu", tiers=("exact",)), terms=make_terms()))
    assert validator_of(market, order_id) == "v1"
