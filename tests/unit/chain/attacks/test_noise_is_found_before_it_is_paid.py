"""A validator hands over noise: its panel encrypts one chunk again, and finds it although no consumer complains."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from domain.legs.reasons import LegEnd
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.records import AnswerKind, AuditKind, Ruling, SeatAnswer
from link.handover import HandoverError, Sealed, seal_chunk
from localnet.simulator.training import noise
from pol.rules.handover import HandoverId
from tests.support.chain_harness import COINS
from tests.support.handed_over import (
    ORDER_KEY,
    OTHER_SECRET,
    HandoverMarket,
    Spoil,
    order_with_key,
    spoilt,
)

NO_POINT = b"\x02" + (5).to_bytes(32, "big")
PARAMS = local_params().replace(handover_every=2)
"""Only the last of the two rounds hands over."""


def all_noise(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    return [noise(chunk) for chunk in sealed]


def other_point(handover: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    """Encrypt with scalars of another secret, which the validator cannot show as the right ones."""
    return [seal_chunk(handover, at, chunk.ciphertext, ORDER_KEY, OTHER_SECRET) for at, chunk in enumerate(sealed)]


def no_point(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    return [replace(chunk, point=NO_POINT) for chunk in sealed]


def no_length(_: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
    return [replace(chunk, ciphertext=b"") for chunk in sealed]


def closed(spoil: Spoil | None = None) -> tuple[HandoverMarket, bytes]:
    """Return a market with an order whose last round is closed and handed over."""
    market = HandoverMarket(PARAMS, validators=12)
    if spoil is not None:
        market.spoil = spoil
    order_id = market.run(order_with_key())
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    market.train_round(order_id)
    market.wait_stage(order_id, 1)
    return market, order_id


def chunk_place(market: HandoverMarket, order_id: bytes, round: int = 1) -> int | None:
    """Return the number of the place of the encrypted chunk in the panel of a round."""
    places = market.panel(order_id, round).places
    return next((at for at, place in enumerate(places) if place.place.kind is AuditKind.HANDOVER), None)


@pytest.mark.parametrize("spoil", [all_noise, no_point, no_length])
def test_noise_is_found_before_it_is_paid(spoil: Spoil) -> None:
    """Its job bond is gone, the first round stays paid, another validator may go on, and the consumer did nothing."""
    market, order_id = closed(spoil)
    assert chunk_place(market, order_id, 0) is None
    market.say_all(order_id, lambda: market.answers(order_id, 1), round=1)
    number = chunk_place(market, order_id)
    assert number is not None
    ruled = [event for event in market.chain.seen("panel.ruled") if event.get("ruling") == str(int(Ruling.WRONG))]
    assert [event.get("place") for event in ruled] == [str(number)]
    assert market.round(order_id, 1).void
    market.chain.pass_time(2 * market.order(order_id).window)
    assert market.order(order_id).state is OrderState.OPEN
    assert market.order(order_id).next_round == 1
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.WRONG_ROUND
    kinds = {payment.kind for payment in market.all_of(order_id).payments}
    assert "provider" in kinds
    assert "compensation" in kinds
    assert market.chain.worth("v0p0") > COINS - 10**9


def test_a_right_hand_over_is_right_for_every_seat() -> None:
    market, order_id = closed()
    market.answer_all(order_id, 1)
    assert {place.ruling for place in market.panel(order_id, 1).places} == {Ruling.RIGHT}
    number = chunk_place(market, order_id)
    assert number is not None
    chunk = market.panel(order_id, 1).places[number].place.chunk
    place = market.layout(order_id).locate(chunk)
    assert place is not None
    assert not place.is_header


def only(market: HandoverMarket, order_id: bytes, kind: AnswerKind) -> Callable[[], tuple[SeatAnswer, ...]]:
    """Return right answers, but for the encrypted chunk one of a kind that has no root."""

    def said() -> tuple[SeatAnswer, ...]:
        number = chunk_place(market, order_id)
        return tuple(
            replace(answer, kind=kind, root=b"", digest=b"", earlier=()) if answer.place == number else answer
            for answer in market.answers(order_id, 1)
        )

    return said


def test_a_chunk_whose_scalar_is_never_shown_is_the_validators_fault() -> None:
    """The scalar is the discrete logarithm of the point in the leaf: no other one will do."""
    market, order_id = closed(other_point)
    number = chunk_place(market, order_id)
    assert number is not None
    with pytest.raises(HandoverError, match="a scalar that does not give its point"):
        market.answers(order_id, 1, [number])
    market.looks = False
    market.say_all(order_id, only(market, order_id, AnswerKind.UNAVAILABLE), round=1)
    assert market.panel(order_id, 1).is_last
    assert market.round(order_id, 1).void
    assert LegEnd(market.leg(order_id).end_reason) is LegEnd.WRONG_ROUND


def test_one_chunk_of_noise_is_found_where_it_is_drawn() -> None:
    """A panel draws one chunk. The others are the consumer's to prove."""
    market, order_id = closed()
    number = chunk_place(market, order_id)
    assert number is not None
    chunk = market.panel(order_id, 1).places[number].place.chunk
    for at in range(market.layout(order_id).count):
        market.spoil = spoilt(at, noise)
        is_right = market.rebuilt_root(order_id, 1, chunk) == market.sealed_root(order_id, 1)
        assert is_right == (at != chunk)
