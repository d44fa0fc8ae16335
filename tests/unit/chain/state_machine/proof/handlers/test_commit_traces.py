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
from domain.limits import SLOTS_MAX
from domain.messages import (
    MsgCommitTraces,
    MsgRegisterProvider,
    MsgStopOrder,
    MsgWithdrawBond,
    SignedShare,
)
from domain.reasons import ShareReason
from domain.records import ShareClaim, ShareRef, ShareState
from tests.support.chain_market import (
    BOND,
    Market,
    Trace,
    digest,
    make_terms,
    make_trace,
    sign_share,
    submit,
)


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def order_id(market: Market) -> bytes:
    return market.run()


def test_a_share_is_committed_and_its_bond_moves(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id, 0, 0, 8)
    market.commit(order_id, trace)
    (share,) = market.shares(order_id)
    assert (share.claim, share.signature) == (trace.claim, trace.signed.signature)
    assert (share.work, share.bond, share.drawn) == (40_000_000, 40_000, ())
    assert market.chain.bond("v0p0") == BOND - 40_000
    (row,) = [row for row in market.all_of(order_id).escrow.bonds if row.owner == "v0p0"]
    assert row.amount == 40_000
    assert market.chain.seen("share.committed")[-1].get("segments") == "2"


Change = Callable[[Market, bytes], SignedShare]


def changed(**changes: Any) -> Change:
    """A claim that holds but for some fields, with a trace and a signature that fit it."""

    def build(market: Market, order_id: bytes) -> SignedShare:
        claim = market.claim(order_id, 0, 0, 8)
        return make_trace(market.order(order_id), replace(claim, **changes)).signed

    return build


def with_signature(make: Callable[[ShareClaim], SignedShare]) -> Change:
    return lambda market, order_id: make(market.trace(order_id, 0, 0, 8).claim)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (changed(order_id=bytes(32)), ShareReason.MALFORMED),
        (changed(attempt=2), ShareReason.MALFORMED),
        (changed(round=1), ShareReason.MALFORMED),
        (changed(slot=SLOTS_MAX), ShareReason.MALFORMED),
        (changed(issue=0), ShareReason.MALFORMED),
        (changed(executor_version=2), ShareReason.WRONG_VERSION),
        (changed(first=2), ShareReason.BAD_RANGE),
        (changed(first=12), ShareReason.BAD_RANGE),
        (changed(count=6), ShareReason.BAD_RANGE),
        (changed(count=0), ShareReason.BAD_RANGE),
        (changed(segments=3), ShareReason.BAD_RANGE),
        (changed(segments=1), ShareReason.BAD_RANGE),
        (changed(global_in=digest("other")), ShareReason.WRONG_OPENING),
        (changed(local_in=digest("other")), ShareReason.WRONG_OPENING),
        (changed(provider="v1p0"), ShareReason.NOT_IN_CLUSTER),
        (changed(provider="nobody"), ShareReason.NOT_IN_CLUSTER),
        (with_signature(lambda c: sign_share(c, by="v0p1")), ShareReason.BAD_SIGNATURE),
        (with_signature(lambda c: SignedShare(replace(c, update_root=bytes(32)), sign_share(c).signature)),
         ShareReason.BAD_SIGNATURE),
    ],
)  # fmt: skip
def test_a_bad_share_is_skipped_with_its_reason_and_the_others_stand(
    market: Market, order_id: bytes, build: Change, reason: ShareReason
) -> None:
    bad = build(market, order_id)
    market.commit(order_id, bad, market.trace(order_id, 1, 8, 8))
    assert market.skipped() == [reason]
    (share,) = market.shares(order_id)
    assert share.claim.slot == 1


@pytest.mark.parametrize(
    ("build", "code", "field"),
    [
        (changed(local_out=b""), BAD_FIELD, "shares[0].claim.local_out"),
        (changed(update_root=bytes(33)), BAD_FIELD, "shares[0].claim.update_root"),
        (changed(provider=""), INVALID_ADDRESS, "shares[0].claim.provider"),
        (with_signature(lambda c: SignedShare(c, b"")), BAD_FIELD, "shares[0].signature"),
    ],
)
def test_a_share_of_the_wrong_form_is_no_share_and_its_message_is_refused(
    market: Market, order_id: bytes, build: Change, code: Code, field: str
) -> None:
    message = MsgCommitTraces("v0", order_id, 1, 0, (), (build(market, order_id),))
    market.chain.refused(code, message, field=field)


def test_ranges_and_slots_are_taken_once(market: Market, order_id: bytes) -> None:
    market.commit(
        order_id,
        market.trace(order_id, 0, 0, 8),
        market.trace(order_id, 1, 4, 8),
        market.trace(order_id, 0, 8, 8, issue=2),
        market.trace(order_id, 1, 8, 8),
    )
    assert market.skipped() == [ShareReason.BAD_RANGE, ShareReason.SLOT_TAKEN]
    assert [share.claim.slot for share in market.shares(order_id)] == [0, 1]


def test_a_range_is_small_enough_to_be_replayed(market: Market) -> None:
    # 250,000,000 FLOPs at most: four segments of 60,000,000 fit, and five do not.
    terms = make_terms(work_per_step=30_000_000, samples_per_round=20)
    order_id = market.run(submit(terms=terms, deposit=10**9))
    market.commit(order_id, market.trace(order_id, 0, 0, 20), market.trace(order_id, 0, 0, 16))
    assert market.skipped() == [ShareReason.BAD_RANGE]
    assert len(market.shares(order_id)) == 1


def test_a_share_needs_a_free_bond(market: Market, order_id: bytes) -> None:
    market.chain.ok(MsgWithdrawBond("v0p0", BOND - 39_999))
    market.commit(order_id, market.trace(order_id, 0, 0, 8))
    assert market.skipped() == [ShareReason.NO_BOND]
    market.commit(order_id, market.trace(order_id, 0, 0, 4))
    assert market.chain.bond("v0p0") == 19_999


def test_one_bond_does_not_serve_two_shares(market: Market, order_id: bytes) -> None:
    market.chain.ok(MsgWithdrawBond("v0p0", BOND - 40_000))
    market.commit(
        order_id,
        market.trace(order_id, 0, 0, 8, provider="v0p0"),
        market.trace(order_id, 1, 8, 8, provider="v0p0"),
    )
    assert market.skipped() == [ShareReason.NO_BOND]


def test_who_left_the_cluster_commits_nothing(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id)
    market.chain.ok(MsgRegisterProvider("v0p0", "v1"))
    market.commit(order_id, trace)
    assert market.skipped() == [ShareReason.NOT_IN_CLUSTER]


def rejecting(
    market: Market, order_id: bytes, trace: Trace, *more: Trace, reason: int = 10_105
) -> Any:
    return market.commit_message(order_id, *more, reject=[(trace.ref, reason)])


def test_a_rejection_comes_first_and_frees_range_slot_and_bond(
    market: Market, order_id: bytes
) -> None:
    first = market.trace(order_id, 0, 0, 8)
    market.commit(order_id, first)
    again = market.trace(order_id, 0, 0, 8, issue=2, provider="v0p1")
    market.chain.ok(rejecting(market, order_id, first, again))
    old, new = market.shares(order_id)
    assert (old.state, old.reason) == (ShareState.REJECTED, ShareReason.SEGMENT_MISMATCH)
    assert (new.state, new.claim.issue) == (ShareState.COMMITTED, 2)
    assert market.chain.bond("v0p0") == BOND
    assert market.chain.seen("share.rejected")[-1].get("reason") == "10105"
    market.chain.refused(WRONG_STATE, rejecting(market, order_id, first))


def test_issue_numbers_only_grow_and_may_be_left_out(market: Market, order_id: bytes) -> None:
    first = market.trace(order_id, 0, 0, 8, issue=3)
    market.commit(order_id, first)
    again = [market.trace(order_id, 0, 0, 8, issue=issue) for issue in (1, 3, 4)]
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
        trace = market.trace(order_id, 0, 0, 16, issue=issue)
        message = market.commit_message(order_id, trace, reject=old)
        old = [(trace.ref, 10_100)]
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "scan", watch)
            market.chain.ok(message)
            market.chain.block()
            market.chain.block()
    close = market.close_message(order_id)
    monkeypatch.setattr(MemoryStore, "scan", watch)
    market.chain.ok(close)
    market.chain.ok(MsgStopOrder("v0", order_id, 1))


def test_a_rejected_share_is_not_drawn(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id)
    market.commit(order_id, trace)
    market.chain.ok(rejecting(market, order_id, trace))
    market.chain.pass_time(5)
    assert market.chain.seen("share.drawn") == []


def test_a_message_is_bounded(market: Market, order_id: bytes) -> None:
    trace = market.trace(order_id, 0, 0, 4)
    message = market.commit_message(order_id, trace)
    chain = market.chain
    chain.refused(LIMIT_REACHED, replace(message, shares=(trace.signed,) * 129))
    chain.refused(BAD_FIELD, replace(message, shares=()), field="shares")
    chain.refused(BAD_FIELD, replace(message, order_id=b""), field="order_id")
    chain.refused(BAD_FIELD, replace(message, round=-1), field="round")
    twice = market.commit_message(order_id, reject=[(trace.ref, 10_101)] * 2)
    chain.refused(BAD_FIELD, twice, field="rejections")
    chain.refused(BAD_FIELD, market.commit_message(order_id, reject=[(trace.ref, 10_110)]))
    chain.refused(BAD_FIELD, market.commit_message(order_id, reject=[(ShareRef(-1, 1), 10_101)]))
    chain.refused(NOT_FOUND, market.commit_message(order_id, reject=[(trace.ref, 10_101)]))


def test_only_the_assigned_validator_commits_to_the_open_round(
    market: Market, order_id: bytes
) -> None:
    message = market.commit_message(order_id, market.trace(order_id))
    market.chain.refused(NOT_YOURS, replace(message, validator="v1"))
    market.chain.refused(WRONG_STATE, replace(message, attempt=2))
    market.chain.refused(WRONG_STATE, replace(message, round=1), field="round")
    market.chain.refused(NOT_FOUND, replace(message, order_id=bytes(32)))


def test_nothing_is_committed_before_accepting(market: Market) -> None:
    order_id = market.submit()
    market.chain.refused(WRONG_STATE, market.commit_message(order_id, market.trace(order_id)))


@pytest.mark.parametrize(("early", "holds"), [(2, True), (1, False), (0, False)])
def test_the_progress_deadline_at_its_edge(
    market: Market, order_id: bytes, early: int, holds: bool
) -> None:
    message = market.commit_message(order_id, market.trace(order_id))
    deadline = market.assignment(order_id).progress_deadline
    market.chain.pass_until(deadline - early)  # the message is in the block one second later
    if holds:
        market.chain.ok(message)
    else:
        market.chain.refused(WRONG_STATE, message)


def test_the_deadline_counts_even_before_the_queue_acts(market: Market, order_id: bytes) -> None:
    market.chain.drop_queue()
    message = market.commit_message(order_id, market.trace(order_id))
    market.chain.pass_time(40)
    market.chain.refused(DEADLINE_PASSED, message)


def test_the_local_state_goes_on_or_is_reset(market: Market, order_id: bytes) -> None:
    market.train_round(order_id)
    terms = market.order(order_id).terms
    assert market.local_in(order_id, 0) != terms.local_root
    market.commit(
        order_id,
        market.trace(order_id, 0, 0, 8),
        market.trace(order_id, 1, 8, 8, local_in=market.local_in(order_id, 0)),  # another slot's
        market.trace(order_id, 1, 8, 8, local_in=terms.local_root),
    )
    assert market.skipped() == [ShareReason.WRONG_OPENING]
