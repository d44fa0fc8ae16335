"""Rejected shares keep bond and commitment, and are compared with what strangers recomputed."""

from dataclasses import replace
from itertools import pairwise

import pytest

from chain.state_machine.ledger.tables import POTS
from chain.state_machine.proof import rejections
from chain.state_machine.registry.tables import VALIDATORS
from domain.errors import WRONG_STATE
from domain.ledger.moves import BURNT_POT
from domain.ledger.records import BondKind
from domain.legs.messages import MsgAckState, MsgStopOrder
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.reasons import MISMATCHES, SILENCES, ShareReason
from domain.proof.records import Share, ShareState
from domain.registry.messages import MsgLeaveCluster
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market, Trace, make_terms, sign_share, submit

VALUE = 38_000
STAKE = 10**10
MISMATCH, SILENT = ShareReason.SEGMENT_MISMATCH, ShareReason.NO_ANSWER


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


def share(market: Market, order_id: bytes, trace: Trace) -> Share:
    return next(s for s in market.shares(order_id) if s.claim == trace.claim)


def close_with(market: Market, order_id: bytes, first: Trace, again: Trace, reason: ShareReason = MISMATCH) -> None:
    """Commit ``first``, reject it, and close the round with ``again`` in its place."""
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.commit(order_id, again, reject=[(first.ref, int(reason))])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))


def verify(market: Market, order_id: bytes) -> None:
    """Let auditors find the chain right, and the window pass."""
    market.answer_all(order_id, 0)
    market.chain.pass_time(12)
    assert market.round(order_id, 0).verified


def worth(market: Market, name: str) -> int:
    """Return the coins of an account, as if it had paid no fees and deposited no bond."""
    return market.chain.worth(name) + BOND


def stake(market: Market, name: str) -> int:
    return VALIDATORS.must(market.chain.overlay(), name).stake


def burnt_so_far(market: Market) -> int:
    return POTS.get(market.chain.overlay(), BURNT_POT.name)


def job_bond(market: Market, order_id: bytes) -> int:
    bonds = market.all_of(order_id).escrow.bonds
    return sum(row.amount for row in bonds if row.kind is BondKind.JOB)


@pytest.mark.parametrize("reason", sorted(MISMATCHES))
def test_work_taken_by_rejection_is_paid_by_the_taker(market: Market, order_id: bytes, reason: ShareReason) -> None:
    """The validator rejects v0p0's share, whatever it says why, and commits the same work under v0p1's name."""
    first = market.trace(order_id, 0, provider="v0p0")
    before = job_bond(market, order_id)
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"), reason)
    assert market.chain.bond("v0p0") == BOND - VALUE
    verify(market, order_id)
    assert worth(market, "v0p0") == COINS + VALUE
    assert market.chain.bond("v0p0") == BOND
    assert before - job_bond(market, order_id) + STAKE - stake(market, "v0") == 2 * VALUE
    assert share(market, order_id, first).state is ShareState.RIGHT
    told = market.chain.seen("share.compared")[-1]
    assert [told.get(name) for name in ("right", "paid", "burnt")] == ["true", str(VALUE), str(VALUE)]


@pytest.mark.parametrize("reason", sorted(SILENCES))
@pytest.mark.parametrize("work", ["right", "made up"])
def test_nobody_pays_where_a_provider_was_said_to_be_silent(
    market: Market, order_id: bytes, reason: ShareReason, work: str
) -> None:
    """No one can tell which of the two was silent, so it costs neither."""
    first = market.trace(order_id, 0, work=work, provider="v0p0")
    before, burnt = job_bond(market, order_id), burnt_so_far(market)
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"), reason)
    verify(market, order_id)
    assert worth(market, "v0p0") == COINS
    assert market.chain.bond("v0p0") == BOND
    assert (job_bond(market, order_id), stake(market, "v0"), burnt_so_far(market)) == (before, STAKE, burnt)


def test_a_difference_costs_the_bond_of_a_provider_that_does_not_stand(market: Market, order_id: bytes) -> None:
    """The accepted share may be the wrong one, so the provider has some time to have its own share recomputed."""
    worth_before, burnt_before = worth(market, "carol"), burnt_so_far(market)
    first = market.trace(order_id, 0, work="made up", provider="v0p0")
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"))
    verify(market, order_id)
    assert share(market, order_id, first).state is ShareState.WRONG
    assert burnt_so_far(market) == burnt_before
    market.chain.pass_until(market.round(order_id, 0).closed_at + 62)
    assert market.chain.bond("v0p0") == BOND - VALUE
    assert (worth(market, "carol"), burnt_so_far(market)) == (worth_before, burnt_before + VALUE)
    told = market.chain.seen("share.compared")[-1]
    assert [told.get(name) for name in ("right", "paid", "burnt")] == ["false", "0", "0"]


def test_copying_a_commitment_under_another_name_is_worth_nothing(market: Market, order_id: bytes) -> None:
    """It shows no roots, and holds for nobody but its owner."""
    victim = market.trace(order_id, 0, provider="v0p0")
    claim = replace(market.claim(order_id, 0, provider="v0p1"), commitment=victim.claim.commitment)
    copied = Trace(sign_share(claim), victim.roots, victim.leaves)
    close_with(market, order_id, copied, market.trace(order_id, 0, issue=2, provider="v0p0"))
    verify(market, order_id)
    assert share(market, order_id, copied).state is ShareState.WRONG
    # It earns for the other slot alone.
    assert worth(market, "v0p1") == COINS + 25_536


def test_every_right_share_that_was_rejected_as_a_mismatch_is_paid(market: Market, order_id: bytes) -> None:
    """Only the first one used to be paid: six of seven providers trained for nothing."""
    traces = [
        market.trace(order_id, 0, issue=1, provider="v0p1"),
        market.trace(order_id, 0, issue=2, provider="v0p1"),
        market.trace(order_id, 0, issue=3, provider="v0p0"),
    ]
    market.commit(order_id, traces[0], market.trace(order_id, 1, provider="v0p0"))
    for old, new in pairwise(traces):
        market.commit(order_id, new, reject=[(old.ref, int(MISMATCH))])
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    assert market.chain.bond("v0p1") == BOND - 2 * VALUE
    verify(market, order_id)
    assert [event.get("paid") for event in market.chain.seen("share.compared")] == [str(VALUE)] * 2
    assert market.chain.bond("v0p1") == BOND


def test_who_was_paid_for_the_same_work_later_lost_nothing(market: Market, order_id: bytes) -> None:
    """Else a provider and a validator could be paid twice for a slot."""
    first = market.trace(order_id, 0, provider="v0p0")
    before = job_bond(market, order_id)
    again = market.trace(order_id, 0, issue=2, provider="v0p0")
    close_with(market, order_id, first, again, MISMATCH)
    verify(market, order_id)
    assert share(market, order_id, first).state is ShareState.RIGHT
    assert job_bond(market, order_id) == before
    assert market.chain.bond("v0p0") == BOND


@pytest.mark.parametrize("bond", [0, 1_000])
def test_what_is_withheld_of_the_validator_pays_first(bond: int) -> None:
    """In the second round: of the first one there is a part that it has not been paid yet."""
    market = Market(local_params().replace(job_bond_bps=bond, payload_fee=0))
    order_id = market.run()
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.chain.pass_time(12)
    held, row, had = withheld(market, order_id), job_bond(market, order_id), stake(market, "v0")
    before = worth(market, "v0p0")
    first = market.trace(order_id, 0, provider="v0p0")
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"))
    market.answer_all(order_id, 1)
    market.chain.pass_time(12)
    assert market.round(order_id, 1).verified
    assert 0 < held < 2 * VALUE
    took = {p.kind: p.amount for p in market.all_of(order_id).payments if p.kind.startswith("withheld")}
    assert sum(took.values()) == held
    # The provider comes before the fire, whichever source pays.
    assert took["withheld_compensation"] == min(held, VALUE)
    assert worth(market, "v0p0") == before + VALUE
    rest = 2 * VALUE - held
    assert job_bond(market, order_id) == row - min(row, rest)
    assert had - stake(market, "v0") == rest - min(row, rest)
    # What is withheld now is of the second round alone.
    assert withheld(market, order_id) == held
    told = market.chain.seen("share.compared")[-1]
    assert (told.get("paid"), told.get("burnt")) == (str(VALUE), str(VALUE))
    of_stake = int(told.get("paid_from_stake")) + int(told.get("burnt_from_stake"))
    assert of_stake == rest - min(row, rest)


@pytest.mark.parametrize("bond", [0, 10_000])
def test_a_validator_cannot_pay_itself_out_of_its_part_and_stop(bond: int) -> None:
    """v0p0 is its own man: rejected although right, he is paid from what a failed leg's validator may lose."""
    market = Market(local_params().replace(job_bond_bps=bond, payload_fee=0))
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=540_000, deadline=9_000, rematch=False))
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.chain.pass_time(12)
    held = withheld(market, order_id)
    had, consumer = stake(market, "v0") + market.chain.bond("v0"), market.chain.worth("carol")
    had += job_bond(market, order_id)
    first = market.trace(order_id, 0, provider="v0p0")
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"))
    market.answer_all(order_id, 1)
    market.chain.pass_time(12)
    assert market.all_of(order_id).order.work_verified == 160_000_000
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.pass_time(3)
    market.chain.ok(MsgAckState("carol", order_id, 1, False))
    market.chain.pass_time(2)
    assert market.order(order_id).state is OrderState.CLOSED
    lost = had - stake(market, "v0") - market.chain.bond("v0")
    told = market.chain.seen("part.returned")[-1]
    # The second round's part waits and is burnt, and what was taken of the first one's comes from its own coins.
    assert (told.get("amount"), told.get("compensated")) == ("0", str(held))
    assert lost >= 2 * VALUE > VALUE  # its man got half of it
    # Two rounds were paid for by the deposit, and the part of one of them was made good.
    paid = 2 * 169_800 - held
    assert market.chain.worth("carol") >= consumer + 540_000 - paid
    assert (int(told.get("from_stake")) == 0) == (bond > 0)


def withheld(market: Market, order_id: bytes) -> int:
    return market.all_of(order_id).escrow.withheld


def test_what_the_job_bond_lacks_comes_from_the_stake() -> None:
    market = Market(local_params().replace(job_bond_bps=0, payload_fee=0))
    order_id = market.run()
    before = stake(market, "v0")
    first = market.trace(order_id, 0, provider="v0p0")
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"))
    verify(market, order_id)
    assert stake(market, "v0") == before - 2 * VALUE
    assert worth(market, "v0p0") == COINS + VALUE


def test_a_rejected_share_cannot_leave_before_it_is_compared(market: Market, order_id: bytes) -> None:
    first = market.trace(order_id, 0, provider="v0p0")
    close_with(market, order_id, first, market.trace(order_id, 0, issue=2, provider="v0p1"))
    market.chain.refused(WRONG_STATE, MsgLeaveCluster("v0p0"))
    verify(market, order_id)
    market.chain.ok(MsgLeaveCluster("v0p0"))


def test_an_leg_that_ends_returns_the_bonds_of_rejected_shares(market: Market, order_id: bytes) -> None:
    """Nobody has recomputed its round, so nothing is known: no bond is held for a verdict that never comes."""
    first = market.trace(order_id, 0, provider="v0p0", work="made up")
    market.commit(order_id, first)
    market.commit(order_id, market.trace(order_id, 0, issue=2), reject=[(first.ref, int(MISMATCH))])
    assert market.chain.bond("v0p0") < BOND
    market.chain.ok(MsgStopOrder("v0", order_id, 1))
    market.chain.block(seconds=0)  # after the shares of the leg are dropped
    assert market.order(order_id).state is OrderState.OPEN
    assert market.chain.bond("v0p0") == BOND
    assert market.chain.seen("share.compared") == []


def test_a_block_compares_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number may have been rejected in a round: the queue carries the rest, and the round is verified after it."""
    monkeypatch.setattr(rejections, "REJECTED_PER_CALL", 1)
    market = Market(local_params().replace(due_gas=1, auditors=0))
    order_id = market.run()
    first, second = (market.trace(order_id, 0, issue=issue, work="made up", provider="v0p0") for issue in (1, 2))
    market.commit(order_id, first, market.trace(order_id, 1, provider="v0p1"))
    market.commit(order_id, second, reject=[(first.ref, int(MISMATCH))])
    market.commit(
        order_id,
        market.trace(order_id, 0, issue=3, provider="v0p1"),
        reject=[(second.ref, int(MISMATCH))],
    )
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    market.chain.pass_until(market.round(order_id, 0).window_ends - 1)
    seen = []
    for _ in range(4):
        market.chain.block()
        compared = len(market.chain.seen("share.compared"))
        seen.append((compared, market.round(order_id, 0).verified))
    assert seen == [(1, False), (2, False), (2, True), (2, True)]


def test_lots_of_a_slot_add_up() -> None:
    """Who opens nothing that it dislikes and is rejected gets no better lot: each new issue is checked at more."""
    market = Market(local_params().replace(duty_segments=2))
    terms = make_terms(round_steps=200, step_work=90_000)
    order_id = market.run(submit(terms=terms, deposit=10**7))
    drawn: list[set[int]] = []
    rejected: list[Trace] = []
    for issue in (1, 2, 3, 4):
        trace = market.trace(order_id, 0, issue=issue)
        market.commit(order_id, trace, reject=[(t.ref, int(SILENT)) for t in rejected])
        rejected = [trace]
        # The second is rejected before its seed is known: it has no lot of its own, and loses none before it.
        if issue != 2:
            market.wait_drawn(order_id)
            drawn.append(set(share(market, order_id, trace).drawn))
    assert drawn[0]
    assert drawn[0] < drawn[1] < drawn[2]
    # Another slot, and the next round, begin anew.
    market.commit(order_id, market.trace(order_id, 1))
    market.wait_drawn(order_id)
    assert len(market.shares(order_id)[-1].drawn) in (1, 2)
    market.chain.ok(*market.close_messages(order_id))
    market.commit(order_id, market.trace(order_id, 0))
    market.wait_drawn(order_id)
    assert len(market.shares(order_id)[-1].drawn) in (1, 2)
