"""The consumer's side of a failed leg: which states are the newest, what it answers, and its copies of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import consumer.states
from chain.client.client import ChainClient
from consumer.errors import ConsumerError
from consumer.states import (
    Copies,
    acknowledge,
    fetch_states,
    find_seats,
    is_broken,
    left_roots,
    newest_verified,
    state_path,
    states_folder,
)
from consumer.watch import Delivery
from domain.legs.records import Leg, LegState
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse, SeatsRequest, SeatsResponse
from domain.proof.records import Round
from pol.rules.replicas import replica_id
from pol.rules.states import panel_number
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


def test_each_replica_has_copies_of_its_own_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The validator that continues one of them gets those of this replica."""
    kept: list[tuple[bytes, Path]] = []
    sent: list[tuple[bytes, Path]] = []

    def fetch(_: object, __: object, answer: OrderResponse, folder: Path) -> tuple[Leg, Round]:
        kept.append((answer.order.id, folder))
        found = newest_verified(answer)
        assert found is not None
        return found

    def send(_: object, __: object, answer: OrderResponse, folder: Path, ___: str) -> int:
        sent.append((answer.order.id, folder))
        return 1

    monkeypatch.setattr(consumer.states, "fetch_states", fetch)
    monkeypatch.setattr(consumer.states, "deliver_states", send)
    first = resumed()
    names = [first.order.id, replica_id(first.order.id, 1)]
    matched = [
        replace(
            first,
            order=replace(first.order, id=name, replicas=2, first_replica=names[0], state=OrderState.RUNNING),
        )
        for name in names
    ]
    running = [
        replace(each, order=replace(each.order, legs=1), legs=(replace(each.legs[0], state=LegState.RUNNING),))
        for each in matched
    ]
    answers = {names[1]: running[1]}

    class Node:
        def query(self, request: OrderRequest) -> OrderResponse:
            return answers[request.order_id]

    home, job, client = tmp_path / "home", cast(Any, None), cast(ChainClient, Node())
    delivery = Delivery(client, Key(b"\x01" * 32), names[0], tmp_path, job, states=states_folder(home, names[0]))
    wanted = [(name, states_folder(home, name)) for name in names]
    delivery.step(running[0])
    assert (kept, sent) == (wanted, [])
    answers[names[1]] = matched[1]
    delivery.step(running[0])
    assert sent == wanted[1:]


def test_copies_are_sent_to_the_seats_that_look_for_them_though_the_next_validator_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = resumed()
    legs = (answer.legs[0], replace(answer.legs[1], asked=1))
    number = panel_number(legs[1])
    about = replace(s.panel(), leg=1, round=0, dispute=number)
    asking = replace(answer, legs=legs, panels=(about,))

    class Node:
        def query(self, request: SeatsRequest) -> SeatsResponse:
            assert (request.leg, request.round, request.dispute) == (1, 0, number)
            seats = (s.seat(0, "seat a"), s.seat(1, "seat b"))
            return SeatsResponse(seats)

    sent: list[str] = []

    def send(*call: Any) -> int:
        if call[4] in (legs[1].validator, "seat a") and "seat b" not in sent:
            raise ConsumerError("it does not answer", "try again")
        sent.append(call[4])
        return 1

    monkeypatch.setattr(consumer.states, "deliver_states", send)
    copies = Copies(cast(ChainClient, Node()), Key(b"\x01" * 32), tmp_path, now=lambda: 0.0)
    for _ in range(3):
        copies.step(asking)
    assert sent == ["seat b", legs[1].validator, "seat a"]
    over = replace(asking, panels=(replace(about, is_settled=True),))
    assert find_seats(cast(ChainClient, Node()), over) == ()


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


def test_after_going_back_the_newest_round_is_the_one_that_the_order_went_back_to() -> None:
    answer = resumed()
    first = answer.rounds[0]
    lost = replace(first, round=1, next_root=b"\x07" * 32)
    legs = (replace(answer.legs[0], verified=2), replace(answer.legs[1], back_leg=1, back_root=first.next_root))
    went_back = replace(answer, rounds=(first, lost), legs=legs)
    newest = newest_verified(went_back)
    assert newest is not None
    assert (newest[0].number, newest[1].round) == (1, 0)
    again = (legs[0], replace(legs[1], back_leg=0, back_root=b"\x08" * 32))
    assert newest_verified(replace(went_back, legs=again, order=replace(answer.order, next_round=0))) is None


def fetch_all(answer: OrderResponse, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let all states of the newest round arrive in a folder; return the names of the states there."""

    def arrive(*call: Any) -> None:
        missing, where = call[5], call[6]
        for root in sorted(missing):
            state_path(where, root).write_bytes(b"state")
        missing.clear()

    monkeypatch.setattr(consumer.states, "_fetch_from", arrive)
    client: Any = None
    fetch_states(cast(ChainClient, client), Key(b"\x01" * 32), answer, folder)
    return {path.stem for path in folder.glob("*.state")}


def test_the_copy_of_the_last_hand_over_round_stays_beside_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the newest states are lost, the order goes back to those that were handed over."""
    answer = resumed()
    first = replace(answer.rounds[0], ciphertext_root=b"\x06" * 32, verified=True)
    leg = replace(answer.legs[0], verified=1, state=LegState.RUNNING)
    one = replace(answer, order=replace(answer.order, legs=1), legs=(leg,), rounds=(first,))
    handed = fetch_all(one, tmp_path, monkeypatch)
    assert handed == {root.hex() for root in ROOTS}
    newer = replace(first, round=1, next_root=b"\x07" * 32, ciphertext_root=b"")
    then = replace(one, order=replace(one.order, next_round=2), legs=(replace(leg, verified=2),), rounds=(first, newer))
    assert fetch_all(then, tmp_path, monkeypatch) > handed
    last = replace(newer, round=2, next_root=b"\x09" * 32, ciphertext_root=b"\x06" * 32)
    at_last = replace(then, order=replace(one.order, next_round=3), rounds=(first, newer, last))
    kept = fetch_all(at_last, tmp_path, monkeypatch)
    assert ROOTS[0].hex() not in kept
    assert last.next_root.hex() in kept
    assert newer.next_root.hex() not in kept
