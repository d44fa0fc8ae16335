"""Verification in bounded portions, and the guards of the money's way."""

from dataclasses import replace

import pytest

from chain.state_machine.context import BlockInfo, Context
from chain.state_machine.ledger import order_money
from chain.state_machine.ledger.balances import LedgerBroken
from chain.state_machine.market import orders
from chain.state_machine.market.book import return_bond
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof import settlement
from chain.state_machine.proof.tables import WINDOW_DUE
from chain.state_machine.queue import DEADLINES
from chain.state_machine.rules import RULES
from domain.events import Event
from domain.ledger.events import PaymentMade
from domain.ledger.moves import REFUND, VALIDATOR
from domain.ledger.records import BondKind, BondRow
from domain.legs.events import PartReturned
from domain.legs.messages import MsgAckState, MsgStopOrder
from domain.legs.moves import BURN
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.moves import Transfer, Uses
from domain.params import local_params
from domain.proof.events import RoundVerified
from domain.proof.moves import PROTOCOL
from domain.vocabulary import MOVES, changes_of
from tests.support.chain_harness import CHAIN_ID, COINS, CRYPTO
from tests.support.chain_market import BOND, Market, make_terms, submit


def context(market: Market) -> Context:
    info = BlockInfo(CHAIN_ID, "uassay", 9, 5, local_params(), b"", b"")
    return Context(market.chain.overlay(), info, CRYPTO, RULES, 1)


def test_many_rounds_that_become_ready_at_once_are_verified_one_by_one() -> None:
    rounds = 16
    # One entry of a lane in a block.
    market = Market(local_params().replace(auditors=0, due_gas=1))
    order_id = market.run(submit(terms=make_terms(rounds=rounds), deposit=rounds * 180_000))
    for _ in range(rounds - 1):
        market.train_round(order_id)
        market.chain.drop_queue()  # nothing happens by itself
    market.chain.pass_time(10)
    market.train_round(order_id)
    verified = []
    for _ in range(3 * rounds):  # their bonds return in between
        verified.append(market.order(order_id).work_verified // 80_000_000)
        market.chain.block()
    assert verified[0] <= 1
    assert sorted(set(verified)) == list(range(verified[0], rounds + 1))
    market.pass_handover(order_id)
    order = market.order(order_id)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.SETTLED)
    assert market.chain.worth("carol") == COINS - rounds * 80_000


def test_a_proven_order_runs_out_its_windows_whatever_its_deadline() -> None:
    """The consumer took its time with the payload: what was done in time is paid all the same."""
    market = Market(local_params().replace(round_window=20))
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=540_000))
    for number in range(3):
        market.train_round(order_id)
        market.answer_all(order_id, number)
    assert market.order(order_id).work_verified < 240_000_000
    market.move_deadline(order_id, market.chain.clock + 3)
    market.chain.pass_until(market.order(order_id).deadline + 1)
    assert market.order(order_id).state is OrderState.PROVEN
    market.chain.pass_time(20)
    market.pass_handover(order_id)
    order = market.order(order_id)
    assert (order.work_verified, order.close_reason) == (240_000_000, CloseReason.SETTLED)


def test_the_bonds_of_a_round_return_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "BONDS_PER_CALL", 3)
    slots = 8
    market = Market(local_params().replace(auditors=0, due_gas=1))
    terms = make_terms(slots=slots, rounds=2)
    order_id = market.run(submit(terms=terms, deposit=10**6))
    market.train_round(order_id)
    assert returned_in_blocks(market, 25) == [3, 3, 2]
    assert market.order(order_id).work_verified > 0


def returned_in_blocks(market: Market, blocks: int) -> list[int]:
    """Make blocks, and return how many bonds returned in each of those that returned some."""
    found = []
    for _ in range(blocks):
        before = len(returned_bonds(market))
        market.chain.block()
        found.append(len(returned_bonds(market)) - before)
    return [number for number in found if number]


def returned_bonds(market: Market) -> list[Event]:
    return [event for event in market.chain.seen("payment") if event.get("kind") == "bond_return"]


def test_a_block_returns_a_bounded_number_of_bonds_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rounds of two shares are four bonds; the order closes with the last of them."""
    monkeypatch.setattr(orders, "BONDS_PER_CALL", 2)
    market = Market(local_params().replace(round_window=100, due_gas=1))
    chain = market.chain
    order_id = market.run(submit(rematch=False))
    for _ in range(2):
        market.train_round(order_id)
    market.fault_round(order_id)
    assert returned_in_blocks(market, 9) == [4]  # two steps in different lanes
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.FAILED
    # The job bond pays what is left of it to the consumer, up to the fee of the order.
    assert 0 <= chain.worth("carol") - COINS <= 200
    assert [chain.bond(name) for name in ("v0p0", "v0p1")] == [BOND] * 2
    assert chain.seen("order.closed")[-1].get("refunded") == "400000"


def test_a_block_returns_a_bounded_number_of_bonds_before_an_order_opens_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orders, "BONDS_PER_CALL", 1)
    market = Market(local_params().replace(due_gas=1))
    order_id = market.run()
    rejected = market.trace(order_id, 0)
    market.commit(order_id, rejected, market.trace(order_id, 1))
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, again, reject=[(rejected.ref, 10_105)])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.fault_round(order_id)
    assert market.order(order_id).state is OrderState.RUNNING
    returned = returned_in_blocks(market, 8)
    assert market.order(order_id).state is OrderState.OPEN
    assert returned == [1, 1, 1]
    assert [market.chain.bond(name) for name in ("v0p0", "v0p1")] == [BOND, BOND]


def test_only_deposits_pay_what_deposits_pay() -> None:
    market = Market()
    order_id = market.run()
    ctx = context(market)
    with pytest.raises(LedgerBroken, match="does not use deposits"):
        order_money.pay_from_deposits(ctx, order_id, [Transfer(BURN, order_id.hex(), "", 1)])
    with pytest.raises(ValueError, match="are missing"):
        order_money.pay_from_deposits(ctx, order_id, [Transfer(REFUND, order_id.hex(), "carol", 10**9)])


def test_an_escrow_never_pays_more_than_it_holds() -> None:
    market = Market(consumers=("carol", "dave"))
    first, _ = market.run(), market.run(submit("dave"))
    ctx = context(market)
    with pytest.raises(LedgerBroken, match="but its escrow has"):
        order_money.apply_payments(ctx, first, [Transfer(REFUND, first.hex(), "carol", 500_000)])


def test_a_bond_never_pays_more_than_it_has_and_keeps_the_rest() -> None:
    market = Market()
    order_id = market.run()
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    ctx = context(market)
    row = order_money.get_share_bond(ctx, trace.claim.key)
    assert row is not None
    burn = Transfer(BURN, order_id.hex(), "", 38_001)
    with pytest.raises(LedgerBroken, match="cannot pay"):
        order_money.cut_bond(ctx, order_id, row, [burn])
    order_money.cut_bond(ctx, order_id, row, [replace(burn, amount=38_000 - 1)])
    rest = order_money.get_share_bond(ctx, trace.claim.key)
    assert rest == replace(row, amount=1)
    return_bond(ctx, order_id, rest)
    assert order_money.get_share_bond(ctx, trace.claim.key) is None


def test_a_bond_of_nothing_is_no_bond() -> None:
    market = Market()
    order_id = market.run()
    ctx = context(market)
    order_money.lock_bond(ctx, order_id, BondRow(BondKind.JOB, "v0", 7, 0, 0, 0, 0))
    assert order_money.get_job_bond(ctx, order_id, 7) is None


def test_without_job_bonds_legs_fail_for_free() -> None:
    market = Market(local_params().replace(job_bond_bps=0, payload_fee=0))
    order_id = market.run(submit(rematch=False))
    market.chain.pass_until(market.leg(order_id).progress_deadline)
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert market.chain.worth("carol") == COINS
    assert market.chain.bond("v0") == BOND


def test_ids_come_from_transactions() -> None:
    with pytest.raises(LookupError):
        context(Market()).new_id("order")


def test_what_the_state_names_must_be_there() -> None:
    with pytest.raises(LookupError, match="order"):
        ORDERS.must(Market().chain.overlay(), bytes(32))


# --- the validator's part, and the hand-over ---

ROUND = 80_000
# Beside that price, what the least audit fee of two seats is beyond the 3 % that are in it.
COST = ROUND - 2_400 + 2 * 46_100
# Of a round's price: 1 % to the protocol, 3 % to its panel, of the rest 70 % by work (the aggregation has 5 %).
PROVIDERS = 2 * 25_536
PART = 76_800 - PROVIDERS


def train(market: Market, order_id: bytes, rounds: int) -> None:
    """Close the next rounds, each with the answers of its auditors."""
    for _ in range(rounds):
        round = market.leg(order_id).round
        market.train_round(order_id)
        market.answer_all(order_id, round)


def paid(market: Market, order_id: bytes, kind: str) -> int:
    return sum(p.amount for p in market.all_of(order_id).payments if p.kind == kind)


def withheld(market: Market, order_id: bytes) -> int:
    return market.all_of(order_id).escrow.withheld


def test_the_validators_part_waits_for_the_settlement() -> None:
    market = Market()
    order_id = market.run()
    before = market.chain.worth("v0")
    train(market, order_id, 1)
    market.chain.pass_time(12)
    assert market.round(order_id, 0).verified
    assert paid(market, order_id, "provider") == PROVIDERS
    assert (paid(market, order_id, "validator"), withheld(market, order_id)) == (0, PART)
    (row,) = market.all_of(order_id).escrow.depositors
    assert row.paid == COST - PART
    train(market, order_id, 1)
    market.chain.pass_time(12)
    assert withheld(market, order_id) == 2 * PART
    market.pass_handover(order_id)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    assert paid(market, order_id, "validator") == market.chain.worth("v0") - before == 2 * PART
    assert withheld(market, order_id) == 0
    assert market.chain.worth("carol") == COINS - 2 * COST


def test_an_order_waits_for_its_hand_over_before_it_settles() -> None:
    """Until then the consumer can fetch, and the validator has everything to lose: job bond and part."""
    # Four times 3,000,000 bytes at 1 MB/s is longer than the window.
    market = Market(local_params().replace(accept_rate=1_000_000))
    terms = make_terms(global_bytes=1_000_000, local_bytes=1_000_000, rounds=1)
    order_id = market.run(submit(terms=terms))
    price = market.order(order_id).price_limit
    train(market, order_id, 1)
    while not market.chain.seen("order.verified"):
        market.chain.block()
    told = market.chain.seen("order.verified")[-1]
    settles_at = market.leg(order_id).settles_at
    assert int(told.get("settles_at")) == settles_at == market.chain.clock + 12
    assert price
    # the window of a round that was verified by another entry, in a lane that is behind
    late = market.chain.clock, WINDOW_DUE.number, order_id, 1, 0
    market.chain.change(lambda overlay: DEADLINES.mark(overlay, 0, *late))
    market.chain.pass_until(settles_at - 1)
    assert market.order(order_id).state is OrderState.PROVEN
    assert withheld(market, order_id) > 0
    assert order_money.get_job_bond(context(market), order_id, 1) is not None
    market.chain.pass_until(settles_at)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    assert market.chain.bond("v0") == BOND


def test_the_wait_is_a_window_at_least() -> None:
    market = Market(local_params().replace(round_window=30, accept_rate=2**60))
    order_id = market.run(submit(terms=make_terms(rounds=1)))
    train(market, order_id, 1)
    while not market.leg(order_id).settles_at:
        market.chain.block()
    assert market.leg(order_id).settles_at == market.chain.clock + 30


def test_who_stops_before_the_end_is_not_paid_for_a_model_that_nobody_has() -> None:
    """Nineteen of twenty rounds, and then nothing: that used to pay 95 % of the price for a model kept to oneself."""
    rounds = 20
    market = Market()
    terms = make_terms(rounds=rounds)
    order_id = market.run(submit(terms=terms, deposit=rounds * 180_000, deadline=100_000, rematch=False))
    before, bond = market.chain.worth("v0"), market.chain.bond("v0")
    train(market, order_id, rounds - 1)
    market.chain.pass_time(12)
    assert withheld(market, order_id) == (rounds - 1) * PART
    locked = market.leg(order_id).job_bond
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.pass_time(3)
    market.chain.ok(MsgAckState("carol", order_id, 1, False))
    market.chain.pass_time(15)
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert paid(market, order_id, "validator") == 0
    assert market.chain.worth("v0") == before
    assert market.chain.bond("v0") == bond + locked - locked // rounds
    # Who trained is paid, and who audited; what the validator would have had is burnt, so the consumer cannot gain.
    assert paid(market, order_id, "provider") == (rounds - 1) * PROVIDERS
    lost = rounds * 180_000 - paid(market, order_id, "refund")
    assert lost == (rounds - 1) * COST
    assert paid(market, order_id, "part_burn") == (rounds - 1) * PART
    assert withheld(market, order_id) == 0


def test_the_part_is_no_loss_that_the_job_bond_makes_good() -> None:
    """Nobody earns by another's failure: the part waits for whom the states are served by, and is not made good."""
    market = Market(local_params().replace(job_bond_bps=10_000))
    terms = make_terms(rounds=4)
    order_id = market.run(submit(terms=terms, deposit=4 * 180_000, deadline=100_000, rematch=False))
    train(market, order_id, 1)
    market.chain.pass_time(12)
    assert withheld(market, order_id) == PART
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.pass_handover(order_id)
    market.chain.pass_time(15)
    fee = paid(market, order_id, "compensation") - (COST - PART)
    assert 0 <= fee <= 200
    assert 0 <= market.chain.worth("carol") - COINS + PART <= 200
    assert paid(market, order_id, "validator") == PART
    # All but what one round took of the bond, which was three quarters of it, is burnt.
    assert paid(market, order_id, "burn") == 3 * ROUND - paid(market, order_id, "compensation")


def test_a_void_round_behind_verified_ones_leaves_their_part() -> None:
    market = Market(local_params().replace(round_window=20))
    order_id = market.run(submit(rematch=False))
    train(market, order_id, 1)
    market.chain.pass_time(22)
    assert withheld(market, order_id) == PART
    market.train_round(order_id)
    market.fault_round(order_id, 1)
    market.pass_handover(order_id)
    market.pass_stands(order_id)
    assert market.order(order_id).close_reason == CloseReason.FAILED
    assert paid(market, order_id, "validator") == PART
    compensated = sum(p.amount for p in market.all_of(order_id).payments if (p.kind, p.to) == ("compensation", "carol"))
    assert 0 < compensated <= COST - PART
    assert market.chain.worth("carol") == COINS - COST + compensated


def test_the_events_alone_tell_what_is_withheld() -> None:
    """A book that reads nothing but events has, after every block, what the escrow says."""
    market = Market()
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=3 * 180_000))
    for _ in range(3):
        train(market, order_id, 1)
        market.chain.pass_time(6)
        assert _by_events(market) == withheld(market, order_id)
    assert _by_events(market) > 0
    market.chain.pass_time(40)
    assert market.order(order_id).close_reason == CloseReason.SETTLED
    assert _by_events(market) == withheld(market, order_id) == 0


def _by_events(market: Market) -> int:
    verified = changes_of(RoundVerified, market.chain.events)
    returned = changes_of(PartReturned, market.chain.events)
    payments = changes_of(PaymentMade, market.chain.events)
    gone = sum(p.amount for p in payments if MOVES[p.kind].uses is Uses.WITHHELD)
    return sum(v.withheld for v in verified) - sum(r.amount for r in returned) - gone


def test_what_is_withheld_pays_nothing_else() -> None:
    market = Market()
    order_id = market.run()
    train(market, order_id, 1)
    market.chain.pass_time(12)
    free = 400_000 - COST
    move = Transfer(PROTOCOL, order_id.hex(), "", free + 1)
    with pytest.raises(ValueError, match="cannot withhold"):
        order_money.pay_from_deposits(context(market), order_id, [move])
    too_much = Transfer(VALIDATOR, order_id.hex(), "v0", PART + 1)
    with pytest.raises(ValueError, match="cannot withhold"):
        order_money.pay_from_deposits(context(market), order_id, [too_much])
