from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.proof.tables import SHARES
from chain.state_machine.store import MemoryStore
from domain.errors import (
    BAD_FIELD,
    BAD_PROOF,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YET,
    NOT_YOURS,
    SLOT_MISSING,
    WRONG_STATE,
)
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.proof.messages import AcceptedShare
from domain.proof.records import ShareRoots, ShareState
from tests.support.chain_market import Market, digest, make_terms, submit


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


def accepted(slot: int, issue: int) -> AcceptedShare:
    """A share with roots that nobody committed to."""
    return AcceptedShare(slot, issue, ShareRoots(bytes(32), bytes(32), bytes(32), (), 2))


@pytest.fixture
def ready(market: Market, order_id: bytes) -> bytes:
    """An order whose first round can be closed."""
    market.commit(order_id, market.trace(order_id, 0), market.trace(order_id, 1))
    market.wait_drawn(order_id)
    return order_id


def test_closing_opens_the_next_round_from_the_new_state(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    market.chain.ok(message)
    leg, closed = market.leg(ready), market.round(ready, 0)
    assert (leg.round, leg.global_in) == (1, message.next_root)
    assert leg.progress_deadline == market.chain.clock + 183
    assert (closed.work, closed.verified, closed.void) == (80_000_000, False, False)
    assert closed.window_ends == market.chain.clock + 10
    assert {share.state for share in market.shares(ready)} == {ShareState.ACCEPTED}
    assert market.chain.seen("round.closed")[-1].get("next_root") == message.next_root.hex()


def test_seeds_must_be_known(market: Market, order_id: bytes) -> None:
    market.commit(order_id, *market.traces_of_round(order_id))
    market.chain.refused(NOT_YET, market.close_message(order_id))  # one block later
    market.wait_drawn(order_id)
    market.chain.ok(market.close_message(order_id))


def test_a_round_has_a_share_of_each_slot(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    for named, missing in (((), 0), ((1,), 0), ((0,), 1), ((0, 2), 1), ((1, 2), 0)):
        shares = tuple(accepted(slot, 1) for slot in named)
        refused = market.chain.refused(SLOT_MISSING, replace(message, shares=shares))
        assert f"have no share of slot {missing}, but the leg serves slots 0 to 1" in refused.log
    more = (*message.shares, accepted(2, 1))
    market.chain.refused(NOT_FOUND, replace(message, shares=more), field="shares")


def test_what_is_named_stands(market: Market, order_id: bytes) -> None:
    """Neither a share that is not there, nor one that was rejected."""
    first, second = market.traces_of_round(order_id)
    market.commit(order_id, first)
    message = market.close_message(order_id, shares=(accepted(0, 1), accepted(1, 1)))
    market.wait_drawn(order_id)
    market.chain.refused(NOT_FOUND, message)
    market.commit(order_id, second, market.trace(order_id, 0, issue=2), reject=[(first.ref, 10_105)])
    market.wait_drawn(order_id)
    market.chain.refused(NOT_FOUND, message)
    market.chain.refused(NOT_FOUND, replace(message, shares=(accepted(0, 3), accepted(1, 1))))
    market.chain.ok(market.close_message(order_id))


def test_a_round_that_lacks_a_share_is_refused_without_reading_the_others(
    market: Market, order_id: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be a thousand of them."""
    market.commit(order_id, market.trace(order_id, 0))
    market.wait_drawn(order_id)
    message = market.close_message(order_id, shares=(accepted(0, 1), accepted(1, 1)))
    get = MemoryStore.get

    def watch(store: MemoryStore, key: bytes) -> Any:
        assert not key.startswith(SHARES.key()), "a share is read"
        return get(store, key)

    market.chain.checked = False
    monkeypatch.setattr(MemoryStore, "get", watch)
    market.chain.refused(NOT_FOUND, message)
    market.chain.refused(SLOT_MISSING, replace(message, shares=message.shares[:1]))


def test_shares_are_named_in_slot_order_and_once(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    market.chain.refused(BAD_FIELD, replace(message, shares=message.shares[::-1]), field="shares")
    market.chain.refused(BAD_FIELD, replace(message, shares=(accepted(0, 1), accepted(0, 1))))
    market.chain.refused(LIMIT_REACHED, replace(message, shares=(accepted(0, 1),) * 1_025))


@pytest.mark.parametrize(
    "change",
    [
        {"trace_root": digest("other")},
        {"update_root": digest("other")},
        {"local_out": digest("other")},
    ],
)
def test_only_what_was_committed_to_is_accepted(market: Market, ready: bytes, change: dict[str, Any]) -> None:
    """Metrics are not among it: they stand in the last leaf, which the panel compares where the update is drawn."""
    message = market.close_message(ready)
    first, second = message.shares
    forged = replace(second, roots=replace(second.roots, **change))
    refused = market.chain.refused(BAD_PROOF, replace(message, shares=(first, forged)))
    assert "the roots of share 1/1 do not hash to its commitment" in refused.log
    market.chain.ok(message)
    told = market.chain.seen("share.accepted")
    assert [event.get("metrics") for event in told] == [str(0x3F800000)] * 2
    assert [event.get("trace_root") for event in told] == [share.roots.trace_root.hex() for share in message.shares]
    assert [share.roots for share in market.shares(ready)] == [first.roots, second.roots]


@pytest.mark.parametrize(
    "made",
    [
        {"opening": (digest("other"), digest("local"))},
        {"opening": (digest("global"), digest("other"))},
        {"version": 2},
    ],
)
def test_a_share_trained_from_elsewhere_cannot_be_accepted(
    market: Market, order_id: bytes, made: dict[str, Any]
) -> None:
    """What a share starts from, and by which executor, is the chain's to say: no roots hash to such a commitment."""
    market.commit(order_id, market.trace(order_id, 0, **made), market.trace(order_id, 1))
    market.wait_drawn(order_id)
    market.chain.refused(BAD_PROOF, market.close_message(order_id), field="shares")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"next_root": b""}, BAD_FIELD),
        ({"order_id": b""}, BAD_FIELD),
        ({"validator": "v1"}, NOT_YOURS),
        ({"round": 1}, WRONG_STATE),
        ({"leg": 3}, WRONG_STATE),
    ],
)
def test_the_open_round_of_ones_own_order(market: Market, ready: bytes, change: dict[str, Any], code: Any) -> None:
    market.chain.refused(code, replace(market.close_message(ready), **change))


def test_a_round_is_closed_once(market: Market, ready: bytes) -> None:
    message = market.close_message(ready)
    market.chain.ok(message)
    market.chain.refused(WRONG_STATE, message)


# --- hand-over, and the last round ---


def params(**changes: Any) -> Params:
    return local_params().replace(**changes)


@pytest.mark.parametrize(("every", "rounds", "handed"), [(1, 3, [0, 1, 2]), (2, 5, [1, 3, 4]), (10, 3, [2])])
def test_each_nth_round_hands_over_and_the_last(every: int, rounds: int, handed: list[int]) -> None:
    market = Market(params(handover_every=every, auditors=0))
    order_id = market.run(submit(terms=make_terms(rounds=rounds), deposit=rounds * 180_000))
    for round in range(rounds):
        market.commit(order_id, *market.traces_of_round(order_id))
        market.wait_drawn(order_id)
        root = digest("sealed", round)
        message = replace(market.close_message(order_id), ciphertext_root=root)
        other = replace(message, ciphertext_root=b"")
        wrong, right = (other, message) if round in handed else (message, other)
        market.chain.refused(BAD_FIELD, wrong, field="ciphertext_root")
        market.chain.ok(right)
        found = market.round(order_id, round).ciphertext_root
        assert found == (root if round in handed else b"")
        assert market.chain.seen("round.closed")[-1].get("ciphertext_root") == found.hex()


def test_closing_the_last_round_proves_the_order(market: Market, order_id: bytes) -> None:
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    assert market.order(order_id).state is OrderState.RUNNING
    assert not market.chain.seen("order.proven")
    market.train_round(order_id)
    leg = market.leg(order_id)
    assert market.order(order_id).state is OrderState.PROVEN
    assert (leg.state, leg.round) == (LegState.PROVEN, 2)
    assert market.chain.seen("order.proven")[-1].get("leg") == "1"
    market.answer_all(order_id, 1)
    # Nothing opens behind it, and there is no progress any more that could be missed.
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, market.trace(order_id)))
    market.chain.pass_until(leg.progress_deadline + 1)
    assert not market.chain.seen("order.failed")
