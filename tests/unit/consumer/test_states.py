"""The consumer's side of a failed leg: which states are the newest, what it answers, and its copies of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import consumer.states
from chain.client.client import ChainClient
from consumer.errors import ConsumerError
from consumer.states import Copies, acknowledge, is_broken, left_roots, newest_verified, state_path
from domain.legs.records import Leg, LegState
from domain.proof.queries import OrderResponse
from domain.proof.records import Round
from tests.unit.validator import support as s
from tests.unit.validator.test_states import ROOTS, resumed
from wire.keys import Key


def test_the_newest_verified_round_is_that_of_the_last_leg_that_has_one() -> None:
    answer = resumed()
    newest = newest_verified(answer)
    assert newest is not None
    assert (newest[0].number, newest[1].round) == (1, 0)
    assert left_roots(answer, newest[1]) == ROOTS
    assert newest_verified(s.chain()) is None


def test_an_order_is_broken_if_its_last_leg_failed_after_a_verified_round() -> None:
    answer = resumed()
    assert not is_broken(answer)
    alone = replace(answer, order=replace(answer.order, legs=1), legs=answer.legs[:1])
    assert is_broken(alone)
    assert not is_broken(replace(alone, order=replace(alone.order, next_round=0)))


def test_what_is_acknowledged_is_the_last_part_that_waits() -> None:
    answer = resumed()
    with pytest.raises(ConsumerError, match="no failed leg of this order waits"):
        acknowledge(answer, received=True)
    waits = replace(answer, legs=(replace(answer.legs[0], part=5, part_until=50), answer.legs[1]))
    message = acknowledge(waits, received=False)
    assert (message.leg, message.received) == (1, False)


class Fetched(list[str]):
    """What is fetched and sent, in place of a validator."""

    def fetch(self, _: object, __: object, answer: OrderResponse, folder: Path) -> tuple[Leg, Round]:
        self.append("fetched")
        folder.mkdir(exist_ok=True)
        state_path(folder, ROOTS[0]).write_bytes(b"state")
        found = newest_verified(answer)
        assert found is not None
        return found

    def send(self, *_: object) -> int:
        self.append("sent")
        return 1


def test_copies_are_fetched_once_for_each_round_and_sent_once_to_each_leg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Fetched()
    monkeypatch.setattr(consumer.states, "fetch_states", done.fetch)
    monkeypatch.setattr(consumer.states, "deliver_states", done.send)
    client: Any = None
    copies = Copies(cast(ChainClient, client), Key(b"\x01" * 32), tmp_path / "states", now=lambda: 0.0)
    answer = resumed()
    running = replace(
        answer, order=replace(answer.order, legs=1), legs=(replace(answer.legs[0], state=LegState.RUNNING),)
    )
    copies.step(s.chain())
    copies.step(running)
    copies.step(running)
    assert done == ["fetched"]
    copies.step(answer)
    copies.step(answer)
    assert done == ["fetched", "sent"]


def test_a_failure_of_copies_that_comes_again_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise ConsumerError("the states do not arrive", "try again")

    monkeypatch.setattr(consumer.states, "deliver_states", refuse)
    told: list[str] = []
    client: Any = None
    copies = Copies(cast(ChainClient, client), Key(b"\x01" * 32), tmp_path, note=told.append, now=lambda: 0.0)
    for _ in range(4):
        copies.step(resumed())
    (line,) = told
    assert "the states do not arrive" in line
