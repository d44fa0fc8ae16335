"""Shares are accepted with their roots, in as many messages as it takes, each slot once in a round."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.proof.tables import OPEN_ROUNDS, SHARES
from chain.state_machine.store import MemoryStore
from domain.errors import BAD_FIELD, BAD_PROOF, LIMIT_REACHED, NOT_FOUND, NOT_YET, NOT_YOURS, WRONG_STATE
from domain.proof.messages import AcceptedShare
from domain.proof.records import ShareRoots, ShareState
from tests.support.chain_market import Market, digest


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


@pytest.fixture
def ready(market: Market, order_id: bytes) -> bytes:
    """An order whose shares of the first round can be accepted."""
    market.commit(order_id, *market.traces_of_round(order_id))
    market.wait_drawn(order_id)
    return order_id


def accepted(slot: int, issue: int) -> AcceptedShare:
    """A share with roots that nobody committed to."""
    return AcceptedShare(slot, issue, ShareRoots(bytes(32), bytes(32), bytes(32), (), 2))


def test_shares_are_accepted_in_any_order_and_in_parts(market: Market, ready: bytes) -> None:
    first, second = market.accept_message(ready).shares
    deadline = market.leg(ready).progress_deadline
    market.chain.ok(market.accept_message(ready, second))
    assert [share.state for share in market.shares(ready)] == [ShareState.COMMITTED, ShareState.ACCEPTED]
    market.chain.ok(market.accept_message(ready, first))
    assert [share.roots for share in market.shares(ready)] == [first.roots, second.roots]
    told = market.chain.seen("share.accepted")
    assert [event.get("metrics") for event in told] == [str(0x3F800000)] * 2
    assert [event.get("trace_root") for event in told] == [second.roots.trace_root.hex(), first.roots.trace_root.hex()]
    assert market.leg(ready).progress_deadline == deadline, "no part of a round is progress"
    market.chain.ok(market.close_message(ready))
    assert [ref.slot for ref in market.round(ready, 0).shares] == [0, 1]
    assert OPEN_ROUNDS.scan(market.chain.overlay()) == []


def test_both_orders_of_one_message_do_the_same(market: Market, ready: bytes) -> None:
    message = market.accept_message(ready)
    market.chain.ok(replace(message, shares=message.shares[::-1]), market.close_message(ready))
    assert [ref.slot for ref in market.round(ready, 0).shares] == [0, 1]


def test_the_segments_must_be_drawn(market: Market, order_id: bytes) -> None:
    market.commit(order_id, *market.traces_of_round(order_id))
    market.chain.refused(NOT_YET, market.accept_message(order_id))  # one block later
    market.wait_drawn(order_id)
    market.chain.ok(market.accept_message(order_id))


def test_what_is_named_stands(market: Market, order_id: bytes) -> None:
    """Neither a share that is not there, nor one that was rejected, nor one of a slot that the leg does not serve."""
    first, second = market.traces_of_round(order_id)
    market.commit(order_id, first)
    market.wait_drawn(order_id)
    market.chain.refused(NOT_FOUND, market.accept_message(order_id, accepted(1, 1)))
    market.commit(order_id, second, market.trace(order_id, 0, issue=2), reject=[(first.ref, 10_105)])
    market.wait_drawn(order_id)
    for slot, issue in ((0, 1), (0, 3), (2, 1)):
        market.chain.refused(NOT_FOUND, market.accept_message(order_id, accepted(slot, issue)), field="shares")
    market.chain.ok(market.accept_message(order_id))


def test_a_slot_is_accepted_once(market: Market, ready: bytes) -> None:
    message = market.accept_message(ready)
    market.chain.refused(BAD_FIELD, replace(message, shares=(message.shares[0],) * 2), field="shares")
    market.chain.ok(replace(message, shares=message.shares[:1]))
    refused = market.chain.refused(WRONG_STATE, message, field="shares")
    assert "share 0/1 is accepted already" in refused.log
    market.chain.refused(LIMIT_REACHED, replace(message, shares=(accepted(0, 1),) * 129))
    market.chain.refused(LIMIT_REACHED, replace(message, shares=()))


def test_a_share_that_is_not_live_is_refused_without_reading_the_others(
    market: Market, ready: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = market.accept_message(ready)
    get = MemoryStore.get

    def watch(store: MemoryStore, key: bytes) -> Any:
        assert not key.startswith(SHARES.key()), "a share is read"
        return get(store, key)

    market.chain.checked = False
    monkeypatch.setattr(MemoryStore, "get", watch)
    market.chain.refused(NOT_FOUND, replace(message, shares=(*message.shares, accepted(2, 1))))


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
    message = market.accept_message(ready)
    first, second = message.shares
    forged = replace(second, roots=replace(second.roots, **change))
    refused = market.chain.refused(BAD_PROOF, replace(message, shares=(first, forged)))
    assert "the roots of share 1/1 do not hash to its commitment" in refused.log
    assert {share.state for share in market.shares(ready)} == {ShareState.COMMITTED}, "all of a message or nothing"


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
    market.chain.refused(BAD_PROOF, market.accept_message(order_id), field="shares")


def test_roots_that_contradict_themselves_are_refused(market: Market, ready: bytes) -> None:
    message = market.accept_message(ready)
    odd = replace(message.shares[1], roots=replace(message.shares[1].roots, segments=1))
    market.chain.refused(BAD_FIELD, replace(message, shares=(message.shares[0], odd)), field="shares")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"order_id": b""}, BAD_FIELD),
        ({"validator": "v1"}, NOT_YOURS),
        ({"round": 1}, WRONG_STATE),
        ({"leg": 3}, WRONG_STATE),
    ],
)
def test_the_open_round_of_ones_own_order(market: Market, ready: bytes, change: dict[str, Any], code: Any) -> None:
    market.chain.refused(code, replace(market.accept_message(ready), **change))
