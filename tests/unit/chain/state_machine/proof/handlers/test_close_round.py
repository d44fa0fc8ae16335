from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.proof.tables import SHARES
from chain.state_machine.store import MemoryStore
from domain.errors import (
    BAD_FIELD,
    NOT_YOURS,
    SLOT_MISSING,
    WRONG_STATE,
)
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.params import Params, local_params
from domain.proof.records import ShareState
from tests.support.chain_market import Market, digest, make_terms, submit


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


@pytest.fixture
def ready(market: Market, order_id: bytes) -> bytes:
    """An order whose first round can be closed."""
    market.commit(order_id, market.trace(order_id, 0), market.trace(order_id, 1))
    market.wait_drawn(order_id)
    return order_id


def test_closing_opens_the_next_round_from_the_new_state(market: Market, ready: bytes) -> None:
    accept, message = market.close_messages(ready)
    market.chain.ok(accept, message)
    leg, closed = market.leg(ready), market.round(ready, 0)
    assert (leg.round, leg.global_in) == (1, message.next_root)
    assert leg.progress_deadline == market.chain.clock + 183
    assert (closed.work, closed.verified, closed.void) == (80_000_000, False, False)
    assert closed.window_ends == market.chain.clock + 10
    assert {share.state for share in market.shares(ready)} == {ShareState.ACCEPTED}
    assert market.chain.seen("round.closed")[-1].get("next_root") == message.next_root.hex()


def test_a_round_has_an_accepted_share_of_each_slot(market: Market, ready: bytes) -> None:
    accept, message = market.close_messages(ready)
    for count in (0, 1):
        if count:
            market.chain.ok(replace(accept, shares=accept.shares[1:]))
        refused = market.chain.refused(SLOT_MISSING, message, field="round")
        assert f"has accepted shares of {count} slots, but the leg serves 2" in refused.log
    market.chain.ok(replace(accept, shares=accept.shares[:1]), message)


def test_a_round_that_lacks_a_share_is_refused_without_reading_the_others(
    market: Market, ready: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be a thousand of them."""
    accept, message = market.close_messages(ready)
    market.chain.ok(replace(accept, shares=accept.shares[:1]))
    get = MemoryStore.get

    def watch(store: MemoryStore, key: bytes) -> Any:
        assert not key.startswith(SHARES.key()), "a share is read"
        return get(store, key)

    market.chain.checked = False
    monkeypatch.setattr(MemoryStore, "get", watch)
    market.chain.refused(SLOT_MISSING, message)


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
    accept, message = market.close_messages(ready)
    market.chain.ok(accept)
    market.chain.refused(code, replace(message, **change))


def test_a_round_is_closed_once(market: Market, ready: bytes) -> None:
    accept, message = market.close_messages(ready)
    market.chain.ok(accept, message)
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
        market.accept_shares(order_id)
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
