"""What the index and the stories tell is what the chain has, to the coin, also of what has left its state."""

import pytest

from chain.state_machine.ledger.tables import POTS
from console.flows import bonds_of, deposit_of, draw
from console.index.records import EARNINGS
from console.story import OrderStory, build_story
from domain.ledger.moves import BONDS_POT, BURNT_POT, COMMUNITY_POT, ESCROWS_POT
from domain.market.records import OrderState
from domain.proof.moves import AUDITS_POT
from domain.proof.records import ShareState
from tests.unit.console.conftest import Told


def story_of(told: Told, order_id: bytes) -> OrderStory:
    story = build_story(told.console.index.events_of(order_id))
    assert story is not None
    return story


@pytest.mark.parametrize("name", ["settled", "running", "waiting"])
def test_a_story_is_what_the_chain_has(told: Told, name: str) -> None:
    order_id: bytes = getattr(told, name)
    story, on_chain = story_of(told, order_id), told.market.all_of(order_id)
    order, escrow = on_chain.order, on_chain.escrow
    assert (story.state, story.close_reason, story.deadline) == (
        order.state,
        order.close_reason,
        order.deadline,
    )
    assert story.unmatched == order.unmatched
    for leg in on_chain.legs:
        number = story.legs[leg.number]
        assert (number.state, number.validator) == (leg.state, leg.validator)
        assert number.settles_at == leg.settles_at
    for share in on_chain.shares:
        claim = share.claim
        told_share = story.legs[claim.leg].rounds[claim.round].shares[claim.slot, claim.issue]
        assert (told_share.state, told_share.drawn) == (share.state, share.drawn)
        assert (told_share.provider, told_share.reason) == (claim.provider, share.reason)
    for closed in on_chain.rounds:
        found = story.legs[closed.leg].rounds[closed.round]
        assert bool(found.verified_height) == closed.verified
        assert (found.window_ends, found.closed_height) == (
            closed.window_ends,
            closed.closed_height,
        )
    for panel in on_chain.panels:
        found = story.legs[panel.leg].rounds[panel.round]
        assert [(p.place, p.ruling) for p in found.places] == [(p.place, p.ruling) for p in panel.places]
        seats = told.market.seats(order_id, panel.round)
        assert [seat.validator for seat in found.seats] == [seat.validator for seat in seats]
    row = escrow.depositors[0]
    deposit = deposit_of(story)
    assert (deposit.total, deposit.held, deposit.withheld) == (
        row.locked + row.paid + row.refunded,
        row.locked,
        escrow.withheld,
    )
    assert bonds_of(story).held == sum(bond.amount for bond in escrow.bonds)


def test_money_adds_up_and_each_coin_has_a_place(told: Told) -> None:
    for order_id in (told.settled, told.running, told.waiting):
        story = story_of(told, order_id)
        for account in (deposit_of(story), bonds_of(story)):
            assert account.adds_up
            picture = draw(account)
            drawn = sum(ribbon.amount for ribbon in picture.ribbons) if picture else 0
            assert drawn == account.total
    settled = deposit_of(story_of(told, told.settled))
    assert settled.held == 0
    assert {flow.kind for flow in settled.flows} >= {"provider", "validator", "auditor", "refund"}


def test_the_index_counts_as_the_chain_does(told: Told) -> None:
    index, store = told.console.index, told.market.chain.overlay()
    pots = index.pots()
    for pot in (ESCROWS_POT, BONDS_POT, AUDITS_POT, BURNT_POT, COMMUNITY_POT):
        held = pots[pot.name]
        if pot is ESCROWS_POT:
            escrows = [told.market.all_of(o).escrow for o in (told.settled, told.running, told.waiting)]
            assert held == sum(
                sum(row.locked for row in e.depositors) + sum(b.amount for b in e.bonds) for e in escrows
            )
        elif pot in (BURNT_POT, COMMUNITY_POT):
            assert held == POTS.get(store, pot.name)
    row = index.order(told.settled)
    on_chain = told.market.all_of(told.settled)
    assert row is not None
    assert row.state is OrderState.CLOSED
    assert (row.paid, row.refunded) == (
        on_chain.escrow.depositors[0].paid,
        on_chain.escrow.depositors[0].refunded,
    )
    assert (row.closed, row.verified, row.rejected) == (2, 2, 1)
    paid = [p for o in (told.settled, told.running) for p in told.market.all_of(o).payments]
    earned = sum(sum(kinds.values()) for kinds in index.earnings().values())
    assert earned >= sum(p.amount for p in paid if p.kind in EARNINGS) > 0


def test_a_cheat_is_told_in_words(told: Told) -> None:
    page = told.json(f"/orders/{told.settled.hex()}")
    (cheat,) = page["cheats"]
    assert (cheat["provider"], cheat["round"], cheat["slot"]) == ("v0p0", 0, 0)
    assert cheat["state"] == ShareState.WRONG.name.lower()
    assert "training again from one of its states gives another state" in cheat["told"]
    assert "and is not paid." in cheat["told"]


def test_providers_have_a_record_of_all_time(told: Told) -> None:
    cheat = told.console.index.providers()["v0p0"]
    assert (cheat.wrong, cheat.rejected) == (1, 1)
    for provider in told.json("/members")["providers"]:
        on_chain = next(p for p in told.console.known.snapshot.providers if p.address == provider["address"])
        assert provider["accepted"] == on_chain.shares_accepted
