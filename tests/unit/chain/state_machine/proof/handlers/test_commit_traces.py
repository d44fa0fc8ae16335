from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.proof.tables import SHARES
from chain.state_machine.store import MemoryStore
from domain.errors import (
    BAD_FIELD,
    DEADLINE_PASSED,
    INVALID_ADDRESS,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YOURS,
    WRONG_STATE,
    Code,
)
from domain.keys import ShareRef
from domain.ledger.messages import MsgDepositBond, MsgWithdrawBond
from domain.legs.messages import MsgStopOrder
from domain.proof.messages import MsgCommitTraces, Rejection, SignedShare
from domain.proof.reasons import ShareReason
from domain.proof.records import ShareClaim, ShareState
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider
from tests.support.chain_market import (
    BOND,
    Market,
    Trace,
    digest,
    sign_share,
)


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


def test_a_share_is_committed_and_its_bond_moves(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id, 0)
    market.commit(order_id, trace)
    (share,) = market.shares(order_id)
    assert (share.claim, share.signature) == (trace.claim, trace.signed.signature)
    assert (share.work, share.bond, share.drawn) == (38_000_000, 38_000, ())
    assert market.chain.bond("v0p0") == BOND - 38_000
    (row,) = [row for row in market.all_of(order_id).escrow.bonds if row.owner == "v0p0"]
    assert row.amount == 38_000
    told = market.chain.seen("share.committed")[-1]
    assert told.get("commitment") == trace.claim.commitment.hex()
    assert (share.local_in, share.roots) == (digest("local"), None)


Change = Callable[[Market, bytes], SignedShare]


def changed(**changes: Any) -> Change:
    """A claim that holds but for some fields, with a signature that fits it."""

    def build(market: Market, order_id: bytes) -> SignedShare:
        return sign_share(replace(market.claim(order_id, 0), **changes))

    return build


def with_signature(make: Callable[[ShareClaim], SignedShare]) -> Change:
    return lambda market, order_id: make(market.trace(order_id, 0).claim)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (changed(order_id=bytes(32)), ShareReason.MALFORMED),
        (changed(leg=2), ShareReason.MALFORMED),
        (changed(round=1), ShareReason.MALFORMED),
        (changed(issue=0), ShareReason.MALFORMED),
        (changed(slot=2), ShareReason.BAD_SLOT),
        (changed(slot=2**32 - 1), ShareReason.BAD_SLOT),
        (changed(provider="v1p0"), ShareReason.NOT_IN_CLUSTER),
        (changed(provider="nobody"), ShareReason.NOT_IN_CLUSTER),
        (with_signature(lambda c: sign_share(c, by="v0p1")), ShareReason.BAD_SIGNATURE),
        (
            with_signature(lambda c: SignedShare(replace(c, commitment=bytes(32)), sign_share(c).signature)),
            ShareReason.BAD_SIGNATURE,
        ),
    ],
)
def test_a_bad_share_is_skipped_with_its_reason_and_the_others_stand(
    market: Market, order_id: bytes, build: Change, reason: ShareReason
) -> None:
    bad = build(market, order_id)
    market.commit(order_id, bad, market.trace(order_id, 1))
    assert market.skipped() == [reason]
    (share,) = market.shares(order_id)
    assert share.claim.slot == 1


@pytest.mark.parametrize(
    ("build", "code", "field"),
    [
        (changed(commitment=b""), BAD_FIELD, "shares[0].claim.commitment"),
        (changed(commitment=bytes(33)), BAD_FIELD, "shares[0].claim.commitment"),
        (changed(provider=""), INVALID_ADDRESS, "shares[0].claim.provider"),
        (with_signature(lambda c: SignedShare(c, b"")), BAD_FIELD, "shares[0].signature"),
    ],
)
def test_a_share_of_the_wrong_form_is_no_share_and_its_message_is_refused(
    market: Market, order_id: bytes, build: Change, code: Code, field: str
) -> None:
    message = MsgCommitTraces("v0", order_id, 1, 0, (), (build(market, order_id),))
    market.chain.refused(code, message, field=field)


def test_a_slot_is_taken_once(market: Market, order_id: bytes) -> None:
    first, again = market.trace(order_id, 0), market.trace(order_id, 0, issue=2, provider="v0p1")
    market.commit(order_id, first, again, market.trace(order_id, 1))
    market.commit(order_id, again)
    assert market.skipped() == [ShareReason.SLOT_TAKEN, ShareReason.SLOT_TAKEN]
    assert [share.claim.slot for share in market.shares(order_id)] == [0, 1]


def test_a_provider_may_serve_several_slots(market: Market, order_id: bytes) -> None:
    both = [market.trace(order_id, slot, provider="v0p0") for slot in (0, 1)]
    market.commit(order_id, *both)
    assert market.skipped() == []
    assert market.chain.bond("v0p0") == BOND - 2 * 38_000


def test_a_share_needs_a_free_bond(market: Market, order_id: bytes) -> None:
    market.chain.ok(MsgWithdrawBond("v0p0", BOND - 37_999))
    market.commit(order_id, market.trace(order_id, 0))
    assert market.skipped() == [ShareReason.NO_BOND]
    market.chain.ok(MsgDepositBond("v0p0", 1))
    market.commit(order_id, market.trace(order_id, 0))
    assert market.chain.bond("v0p0") == 0


def test_one_bond_does_not_serve_two_shares(market: Market, order_id: bytes) -> None:
    market.chain.ok(MsgWithdrawBond("v0p0", BOND - 38_000))
    market.commit(
        order_id,
        market.trace(order_id, 0, provider="v0p0"),
        market.trace(order_id, 1, provider="v0p0"),
    )
    assert market.skipped() == [ShareReason.NO_BOND]


def test_who_left_the_cluster_commits_nothing(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id)
    market.chain.ok(MsgRegisterProvider("v0p0", "v1"))
    market.commit(order_id, trace)
    assert market.skipped() == [ShareReason.NOT_IN_CLUSTER]


def test_who_only_asked_commits_nothing(market: Market, order_id: bytes) -> None:
    """Shares of the others in the same message stand."""
    market.chain.ok(MsgRegisterProvider("v1p0", "v0"))
    traces = (market.trace(order_id, 0, provider="v1p0"), market.trace(order_id, 1))
    market.commit(order_id, *traces)
    assert market.skipped() == [ShareReason.NOT_IN_CLUSTER]
    assert len(market.shares(order_id)) == 1
    market.chain.ok(MsgAdmitProvider("v0", "v1p0"))
    market.commit(order_id, traces[0])
    assert len(market.shares(order_id)) == 2


def rejecting(market: Market, order_id: bytes, trace: Trace, *more: Trace, reason: int = 10_105) -> Any:
    return market.commit_message(order_id, *more, reject=[(trace.ref, reason)])


def test_a_rejection_comes_first_frees_the_slot_and_moves_no_money(market: Market, order_id: bytes) -> None:
    first = market.trace(order_id, 0)
    market.commit(order_id, first)
    again = market.trace(order_id, 0, issue=2, provider="v0p1")
    market.chain.ok(rejecting(market, order_id, first, again))
    old, new = market.shares(order_id)
    assert (old.state, old.reason) == (ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH)
    assert (new.state, new.claim.issue) == (ShareState.COMMITTED, 2)
    assert market.chain.bond("v0p0") == BOND - 38_000
    assert market.chain.seen("share.rejected")[-1].get("reason") == "10105"
    market.chain.refused(WRONG_STATE, rejecting(market, order_id, first))


def test_issue_numbers_only_grow_and_may_be_left_out(market: Market, order_id: bytes) -> None:
    first = market.trace(order_id, 0, issue=3)
    market.commit(order_id, first)
    again = [market.trace(order_id, 0, issue=issue) for issue in (1, 3, 4)]
    market.chain.ok(rejecting(market, order_id, first, *again))
    assert market.skipped() == [ShareReason.WRONG_ISSUE, ShareReason.WRONG_ISSUE]
    assert [share.claim.issue for share in market.shares(order_id)] == [3, 4]


def test_what_was_rejected_costs_later_commitments_nothing(
    market: Market, order_id: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round may have seen thousands of rejected shares; no message, draw or end walks over them."""
    scan = MemoryStore.scan

    def watch(store: MemoryStore, prefix: bytes, after: bytes = b"") -> Iterator[Any]:
        assert not prefix.startswith(SHARES.key()), "shares are scanned"
        return scan(store, prefix, after)

    old: list[tuple[ShareRef, int]] = []
    market.chain.checked = False
    for issue in (1, 2, 3):
        traces = [market.trace(order_id, slot, issue=issue) for slot in (0, 1)]
        message = market.commit_message(order_id, *traces, reject=old)
        old = [(trace.ref, 10_100) for trace in traces]
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "scan", watch)
            market.chain.ok(message)
            market.chain.block()
            market.chain.block()
    close = market.close_messages(order_id)
    monkeypatch.setattr(MemoryStore, "scan", watch)
    market.chain.ok(*close)
    market.chain.ok(MsgStopOrder("v0", order_id, 1))


def test_a_rejected_share_is_not_drawn(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    market.chain.ok(rejecting(market, order_id, trace))
    market.chain.pass_time(5)
    assert market.chain.seen("share.drawn") == []


def test_a_message_is_bounded(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id, 0)
    message = market.commit_message(order_id, trace)
    chain = market.chain
    chain.refused(LIMIT_REACHED, replace(message, shares=(trace.signed,) * 129))
    most = replace(message, shares=(trace.signed,) * 64)
    rejections = tuple(Rejection(ShareRef(0, issue), 10_101) for issue in range(1, 66))
    refused = chain.refused(LIMIT_REACHED, replace(most, rejections=rejections), field="shares")
    assert "and rejections are 129 together, but a message has at most 128" in refused.log
    chain.refused(NOT_FOUND, replace(most, rejections=rejections[:64]))
    chain.refused(BAD_FIELD, replace(message, shares=()), field="shares")
    chain.refused(BAD_FIELD, replace(message, order_id=b""), field="order_id")
    chain.refused(BAD_FIELD, replace(message, round=-1), field="round")
    twice = market.commit_message(order_id, reject=[(trace.ref, 10_101)] * 2)
    chain.refused(BAD_FIELD, twice, field="rejections")
    chain.refused(BAD_FIELD, market.commit_message(order_id, reject=[(trace.ref, 10_110)]))
    chain.refused(BAD_FIELD, market.commit_message(order_id, reject=[(ShareRef(-1, 1), 10_101)]))
    chain.refused(NOT_FOUND, market.commit_message(order_id, reject=[(trace.ref, 10_101)]))


def test_only_the_assigned_validator_commits_to_the_open_round(market: Market, order_id: bytes) -> None:
    message = market.commit_message(order_id, market.trace(order_id))
    market.chain.refused(NOT_YOURS, replace(message, validator="v1"))
    market.chain.refused(WRONG_STATE, replace(message, leg=2))
    market.chain.refused(WRONG_STATE, replace(message, round=1), field="round")
    market.chain.refused(NOT_FOUND, replace(message, order_id=bytes(32)))


def test_nothing_is_committed_before_accepting(market: Market) -> None:
    order_id = market.submit()
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, market.trace(order_id)))


@pytest.mark.parametrize(("early", "holds"), [(2, True), (1, False), (0, False)])
def test_the_progress_deadline_at_its_edge(market: Market, order_id: bytes, early: int, holds: bool) -> None:
    message = market.commit_message(order_id, market.trace(order_id))
    deadline = market.leg(order_id).progress_deadline
    market.chain.pass_until(deadline - early)  # the message is in the block one second later
    if holds:
        market.chain.ok(message)
    else:
        market.chain.refused(WRONG_STATE, message)


def test_the_deadline_counts_even_before_the_queue_acts(market: Market, order_id: bytes) -> None:
    market.chain.drop_queue()
    message = market.commit_message(order_id, market.trace(order_id))
    market.chain.pass_time(200)
    market.chain.refused(DEADLINE_PASSED, message)


def test_a_slot_goes_on_from_the_local_state_that_its_last_share_left(market: Market, order_id: bytes) -> None:
    """And from no other: not from the one that a new order begins with, nor from another slot's."""
    rejected = market.trace(order_id, 0)
    market.commit(order_id, rejected)
    accepted = [market.trace(order_id, 0, issue=2), market.trace(order_id, 1)]
    market.chain.ok(rejecting(market, order_id, rejected, *accepted))
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
    left = [trace.roots.local_out for trace in accepted]
    market.commit(order_id, *market.traces_of_round(order_id))
    assert [share.local_in for share in market.shares(order_id)][-2:] == left
    market.wait_drawn(order_id)
    market.chain.ok(*market.close_messages(order_id))
