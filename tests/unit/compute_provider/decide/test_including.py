"""When a provider puts its commitment on chain itself."""

from dataclasses import replace

import pytest

from compute_provider.decide import actions as do
from compute_provider.decide import receive
from compute_provider.decide.claims import (
    INCLUDE_SECONDS,
    INCLUDE_SECONDS_MIN,
    is_over,
    must_include,
    still_promised,
    task_problem,
)
from compute_provider.decide.duties import decide
from compute_provider.decide.records import Shares, ShareWork, Stage
from compute_provider.decide.view import Look, ValidatorView
from domain.legs.records import LegState
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import Round, Share, ShareClaim, ShareState
from pol.rules.inclusion import HELD_ISSUES_FROM
from tests.unit.compute_provider import support as s
from wire.keys import verify

TASK = s.task()
KEY = TASK.key
CLAIM = ShareClaim(
    order_id=KEY.order_id,
    leg=KEY.leg,
    round=KEY.round,
    slot=KEY.slot,
    issue=KEY.issue,
    provider=s.PROVIDER.address,
    commitment=bytes(32),
)
SOON = TASK.deadline - INCLUDE_SECONDS


def share(state: ShareState, reason: ShareReason = ShareReason.NONE, issue: int = 1) -> Share:
    claim = replace(CLAIM, issue=issue)
    return Share(claim, bytes(64), bytes(32), 1, 1, state, int(reason), 0, 0, (), None)


def with_shares(*shares: Share) -> OrderResponse:
    return replace(s.order(), shares=shares)


def closed(**changes: object) -> OrderResponse:
    made = Round(
        order_id=KEY.order_id,
        leg=KEY.leg,
        round=KEY.round,
        global_in=bytes(32),
        next_root=bytes(32),
        ciphertext_root=b"",
        shares=(),
        work=1,
        closed_at=1_000,
        closed_height=1,
        window_ends=1_100,
        verified=False,
        void=False,
        stopped=None,
    )
    return replace(s.order(), rounds=(replace(made, **changes),))  # type: ignore[arg-type]


def failed() -> OrderResponse:
    order = s.order()
    return replace(order, legs=(replace(order.legs[0], state=LegState.FAILED),))


HALF = closed().order.window // 2


@pytest.mark.parametrize(
    ("order", "clock", "wanted"),
    [
        (s.order(), SOON - 1, False),
        (s.order(), SOON, True),
        (s.order(), TASK.deadline, False),
        (with_shares(share(ShareState.COMMITTED)), SOON, False),
        (with_shares(share(ShareState.REJECTED, ShareReason.NO_ANSWER)), SOON, False),
        (with_shares(share(ShareState.REJECTED, ShareReason.INCLUDED)), SOON, False),
        (with_shares(share(ShareState.COMMITTED, issue=2)), 1_000, True),
        (with_shares(share(ShareState.REJECTED, ShareReason.NO_ANSWER, issue=2)), 1_000, False),
        (closed(), 1_000, True),
        (closed(), 1_100 - HALF, False),
        (closed(verified=True), 1_000, False),
        (closed(void=True), 1_000, False),
        (failed(), SOON, False),
    ],
)
def test_a_share_is_included_before_its_deadline_if_it_is_not_on_chain(
    order: OrderResponse, clock: int, wanted: bool
) -> None:
    assert must_include(order, TASK, CLAIM, clock) is wanted


def held() -> tuple[Share, Share]:
    """Return the share of an accomplice with the issue of the task, and the own share, which is held."""
    other = share(ShareState.COMMITTED)
    other = replace(other, claim=replace(other.claim, provider="accomplice"))
    return other, replace(share(ShareState.REJECTED, ShareReason.INCLUDED), held_as=HELD_ISSUES_FROM)


def test_a_share_is_included_although_an_accomplice_has_its_issue() -> None:
    other, own = held()
    assert must_include(with_shares(other), TASK, CLAIM, 1_000)
    assert not must_include(with_shares(other, own), TASK, CLAIM, 1_000)
    assert not must_include(with_shares(other, replace(own, state=ShareState.RIGHT)), TASK, CLAIM, 1_000)


def test_a_provider_finds_its_held_share_and_keeps_its_trace() -> None:
    other, own = held()
    order = with_shares(other, own)
    assert order.held(KEY, CLAIM.provider) == own.key == replace(KEY, issue=HELD_ISSUES_FROM)
    assert order.held(KEY, "accomplice") == KEY
    assert order.held(KEY, "stranger") == KEY
    assert order.share(KEY) == other
    assert order.share(own.key) == own
    assert set(order.shares_of(KEY.leg, KEY.round)) == {(KEY.slot, KEY.issue), (KEY.slot, HELD_ISSUES_FROM)}
    assert not is_over(KEY, CLAIM.provider, order, 1_000)
    old, taken = replace(own, state=ShareState.TAKEN), replace(own, taken_by=2)
    assert with_shares(other, old, taken).held(KEY, CLAIM.provider) == replace(own.key, leg=2)


def test_a_promised_bond_is_free_when_the_own_share_has_locked_it() -> None:
    other, own = held()
    promised = {KEY: 5}
    assert still_promised(promised, KEY, CLAIM.provider, with_shares(other)) == promised
    assert still_promised(promised, KEY, CLAIM.provider, with_shares(other, own)) == {}


def test_a_short_task_leaves_time_to_include_and_one_without_a_signature_cannot_be_included() -> None:
    short = s.task(seconds_left=20)
    assert must_include(s.order(), short, CLAIM, short.deadline - INCLUDE_SECONDS_MIN)
    assert not must_include(s.order(), short, CLAIM, short.deadline - INCLUDE_SECONDS_MIN - 1)
    assert not must_include(s.order(), replace(TASK, signature=b""), CLAIM, SOON)


def test_a_provider_takes_only_tasks_that_its_validator_signed() -> None:
    def problem(task: object, clock: int = 1_000) -> str:
        def is_signed(document: bytes, signature: bytes) -> bool:
            return verify(s.VALIDATOR_KEY.pub_key, document, signature)

        return task_problem(task, s.PROVIDER.address, s.CHAIN, clock, is_signed)  # type: ignore[arg-type]

    assert problem(TASK) == ""
    assert "deadline" in problem(TASK, TASK.deadline)
    for changed in (
        replace(TASK, signature=b""),
        replace(TASK, signature=bytes(64)),
        replace(TASK, deadline=TASK.deadline + 1),
        replace(TASK, every=1),
        replace(TASK, key=replace(KEY, issue=2)),
    ):
        assert "signature" in problem(changed)


def test_the_share_is_included_on_chain_beside_all_else() -> None:
    work = ShareWork(TASK, Stage.SUBMITTED, uploaded=True)
    shares = receive.to_include(Shares((work,)), KEY, wanted=True)
    _, actions = decide(shares, Look(joined=True, picture=ValidatorView((TASK,), ())))
    assert do.Include(KEY) in actions
    assert do.Submit(KEY) in actions
    after = receive.to_include(shares, KEY, wanted=False)
    assert do.Include(KEY) not in decide(after, Look(joined=True, picture=ValidatorView((TASK,), ())))[1]


def test_an_included_share_is_not_over_while_its_validator_can_commit_it() -> None:
    known = share(ShareState.REJECTED, ShareReason.INCLUDED)
    assert not is_over(KEY, s.PROVIDER.address, with_shares(known), 1_000)
    # Its provider can still show the key of its delivery, until the panel needs the state.
    assert not is_over(KEY, s.PROVIDER.address, replace(closed(), shares=(known,)), 1_099 - HALF)
    assert is_over(KEY, s.PROVIDER.address, replace(closed(), shares=(known,)), 1_100 - HALF)
    assert is_over(KEY, s.PROVIDER.address, replace(failed(), shares=(known,)), 1_000)
