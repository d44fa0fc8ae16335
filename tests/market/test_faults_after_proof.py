"""What seats need when those who did the work are gone: the validator has it, or computes it again, or is at fault."""

from collections.abc import Iterator

import pytest

from chain.client.sender import TxSender
from consumer.complain import complain
from consumer.early import take_early
from consumer.errors import ConsumerError
from consumer.result import fetch_result
from domain.legs.reasons import LegEnd
from domain.market.records import OrderState
from domain.proof.records import AnswerKind, Ruling
from tests.support.market_network import MarketNetwork, market_network, quick_params
from tests.support.waiting import wait_until

PARAMS = quick_params(duty_segments=1, audit_bps=5_000, audit_places_max=9)
"""Seats replay 2 or more of the 10 segments of a round; the validator has opened what 6 of them need, at most."""
ROUNDS = 2
PATIENT = 20_000
"""FLOP/s that the provider is certified for: it has time enough on a busy machine."""
SECONDS = 600.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarketNetwork]:
    directory = tmp_path_factory.mktemp("after")
    with market_network(directory, (("",), (), ()), PARAMS, lambda _: PATIENT) as running:
        yield running


def test_seats_are_served_when_the_provider_is_gone_and_the_daemon_was_killed(
    market: MarketNetwork,
) -> None:
    market.bid("val0", "here")
    order = market.submit("here", deadline=1_200)
    # Before the lot of the last round's panel is drawn: nobody knows yet which states will be needed.
    wait_until(lambda: len(market.look(order).rounds) == ROUNDS, "the last round", SECONDS)
    # The consumer does not wait until the round is verified.
    sender = TxSender(market.client, market.key)
    assert take_early(market.client, sender, order.id)
    market.network.kill(market.members("val0")[0].name)
    market.network.kill("val0.validator")
    market.network.start_one("val0.validator")

    def all_right() -> bool:
        on_chain = market.look(order)
        assert not [closed.round for closed in on_chain.rounds if closed.void]
        panels = on_chain.panels
        return len(panels) == ROUNDS and all(panel.is_decided for panel in panels)

    wait_until(all_right, "panels that are decided", SECONDS)
    for panel in market.look(order).panels:
        assert {place.ruling for place in panel.places} == {Ruling.RIGHT}
    for seat in market.seats(order):
        assert all(answer.kind is AnswerKind.FINISHED for answer in seat.answers)
    order.wait_verified(SECONDS)
    scratch = market.layout.path / "scratch"
    result = fetch_result(market.client, market.key, order.id, market.job, scratch)
    assert result.root == market.look(order).rounds[-1].next_root
    with pytest.raises(ConsumerError, match="there is nothing to complain about"):
        complain(market.client, market.key, order.id, market.job, scratch, sender=sender)


@pytest.mark.nightly
def test_a_winner_that_vanishes_before_anybody_recomputed_its_round(market: MarketNetwork) -> None:
    """Strangers say that they cannot get the data; nothing is paid for such a round, and the job bond is cut."""
    market.bid("val0", "here")
    order = market.submit("here", deadline=1_200)
    others = ("val1.validator", "val2.validator")
    order.wait_state(OrderState.RUNNING, SECONDS)
    for name in others:  # they have time enough to commit when they go on
        market.network.pause(name)
    wait_until(lambda: market.look(order).rounds, "a closed round", SECONDS)
    market.network.kill("val0.validator")
    for name in others:
        market.network.resume(name)

    def is_void() -> bool:
        return any(closed.void for closed in market.look(order).rounds)

    wait_until(is_void, "the round to be void", SECONDS)
    answers = [answer for seat in market.seats(order) for answer in seat.answers]
    assert answers
    assert all(answer.kind is AnswerKind.UNAVAILABLE for answer in answers)
    on_chain = market.look(order)
    assert not any(closed.verified for closed in on_chain.rounds)
    (leg, *_) = on_chain.legs
    assert leg.end_reason == LegEnd.WRONG_ROUND
    paid = {payment.kind for payment in on_chain.payments}
    assert paid.isdisjoint({"provider", "validator", "protocol"})
