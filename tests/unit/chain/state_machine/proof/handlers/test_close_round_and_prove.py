from dataclasses import replace
from typing import Any

import pytest

from domain.errors import (
    BAD_FIELD,
    BAD_PROOF,
    LIMIT_REACHED,
    NOT_COVERED,
    NOT_FOUND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
)
from domain.reasons import AttemptEnd, CloseReason
from domain.records import OrderState, ShareRef, ShareState
from tests.support.chain_harness import COINS
from tests.support.chain_market import BOND, Market


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


@pytest.fixture
def ready(market: Market, order_id: bytes) -> bytes:
    """An order whose first round can be closed."""
    market.commit(order_id, market.trace(order_id, 0, 0, 8), market.trace(order_id, 1, 8, 8))
    market.wait_drawn(order_id)
    return order_id


def test_closing_opens_the_next_round_from_the_new_state(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    market.chain.ok(message)
    assignment, closed = market.assignment(ready), market.round(ready, 0)
    assert (assignment.round, assignment.global_in) == (1, message.next_root)
    assert assignment.progress_deadline == market.chain.clock + 31
    assert (closed.work, closed.verified, closed.void) == (80_000_000, False, False)
    assert closed.window_ends == market.chain.clock + 10
    assert {share.state for share in market.shares(ready)} == {ShareState.ACCEPTED}
    assert market.chain.seen("round.closed")[-1].get("next_root") == message.next_root.hex()


def test_seeds_must_be_known(market: Market, order_id: bytes) -> None:
    market.commit(order_id, market.trace(order_id))
    market.chain.refused(NOT_YET, market.close_message(order_id))  # one block later
    market.chain.ok(market.close_message(order_id))  # the second proposer's block drew


def test_shares_must_cover_the_round_exactly(market: Market, order_id: bytes) -> None:
    market.commit(order_id, market.trace(order_id, 0, 0, 8), market.trace(order_id, 1, 12, 4))
    market.wait_drawn(order_id)
    message = market.close_message(order_id)
    market.chain.refused(NOT_COVERED, message)
    market.chain.refused(NOT_COVERED, replace(message, shares=message.shares[:1]))
    market.chain.refused(NOT_COVERED, replace(message, shares=()))


def test_every_standing_share_is_named_and_nothing_else(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    market.chain.refused(NOT_COVERED, replace(message, shares=message.shares[:1]))
    market.chain.refused(NOT_FOUND, replace(message, shares=(ShareRef(0, 2), ShareRef(1, 1))))
    market.chain.refused(BAD_FIELD, replace(message, shares=message.shares[::-1]), field="shares")
    market.chain.refused(BAD_FIELD, replace(message, shares=(ShareRef(0, 1), ShareRef(0, 1))))
    market.chain.refused(LIMIT_REACHED, replace(message, shares=(ShareRef(0, 1),) * 1_025))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"next_root": b""}, BAD_FIELD),
        ({"order_id": b""}, BAD_FIELD),
        ({"validator": "v1"}, NOT_YOURS),
        ({"round": 1}, WRONG_STATE),
        ({"attempt": 3}, WRONG_STATE),
    ],
)
def test_the_open_round_of_ones_own_order(
    market: Market, ready: bytes, change: dict[str, Any], code: Any
) -> None:
    market.chain.refused(code, replace(market.close_message(ready), **change))


def test_a_round_is_closed_once(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    market.chain.ok(message)
    market.chain.refused(WRONG_STATE, message)


# --- prove ---


@pytest.fixture
def trained(market: Market, order_id: bytes) -> bytes:
    market.train_round(order_id)
    market.train_round(order_id)
    return order_id


def test_a_proof_names_the_state_that_the_last_round_left(market: Market, trained: bytes) -> None:
    message = market.prove_message(trained)
    market.chain.refused(BAD_PROOF, replace(message, final_root=bytes(32)), field="final_root")
    market.chain.refused(BAD_PROOF, replace(message, chunks=2), field="chunks")
    market.chain.refused(BAD_FIELD, replace(message, ciphertext_root=b""), field="ciphertext_root")
    market.chain.refused(NOT_YOURS, replace(message, validator="v1"))
    market.chain.ok(message)
    assert market.order(trained).state is OrderState.PROVEN
    assert market.assignment(trained).ciphertext_root == message.ciphertext_root
    market.chain.refused(WRONG_STATE, message)


def test_a_proof_comes_after_the_last_round(market: Market, order_id: bytes) -> None:
    market.train_round(order_id)
    market.chain.refused(NOT_YET, market.prove_message(order_id))


def test_no_round_opens_behind_the_last(market: Market, trained: bytes) -> None:
    market.chain.refused(WRONG_STATE, market.commit_message(trained, market.trace(trained)))


def test_a_result_that_is_never_proven_costs_the_whole_job_bond(
    market: Market, trained: bytes
) -> None:
    for number in range(2):
        market.answer_all(trained, number)
    market.chain.pass_time(45)
    order = market.order(trained)
    assert (order.state, order.close_reason) == (OrderState.CLOSED, CloseReason.FAILED)
    assert market.assignment(trained).end_reason == AttemptEnd.NO_PROGRESS
    assert market.chain.bond("v0") == BOND - 16_000
    # What was verified stays paid; the rest and the job bond are the consumer's.
    assert market.chain.worth("carol") == COINS - 160_000 + 16_000


def test_proving_after_all_windows_settles_at_once(market: Market, trained: bytes) -> None:
    for number in range(2):
        market.answer_all(trained, number)
    market.chain.pass_time(10)
    assert market.order(trained).work_verified == 160_000_000
    market.prove(trained)
    assert market.order(trained).close_reason == CloseReason.SETTLED
