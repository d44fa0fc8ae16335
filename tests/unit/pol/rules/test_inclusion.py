"""The bytes that a validator signs for a task, and the shares that are on chain only because of their providers."""

from dataclasses import replace

from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareClaim, ShareState
from pol.rules.inclusion import is_included, task_sign_bytes

KEY = ShareKey(b"\x01" * 32, 1, 2, 3, 4)
CLAIM = ShareClaim(
    order_id=KEY.order_id,
    leg=KEY.leg,
    round=KEY.round,
    slot=KEY.slot,
    issue=KEY.issue,
    provider="p0",
    commitment=bytes(32),
)


def test_a_task_is_signed_for_all_that_it_states() -> None:
    other_keys = (replace(KEY, leg=9), replace(KEY, round=9), replace(KEY, slot=9), replace(KEY, issue=9))
    documents = [
        task_sign_bytes("chain", KEY, "p0", 5, 600, 1, 0),
        task_sign_bytes("other", KEY, "p0", 5, 600, 1, 0),
        task_sign_bytes("chain", replace(KEY, order_id=bytes(32)), "p0", 5, 600, 1, 0),
        *(task_sign_bytes("chain", key, "p0", 5, 600, 1, 0) for key in other_keys),
        task_sign_bytes("chain", KEY, "p1", 5, 600, 1, 0),
        task_sign_bytes("chain", KEY, "p0", 6, 600, 1, 0),
        task_sign_bytes("chain", KEY, "p0", 5, 601, 1, 0),
        task_sign_bytes("chain", KEY, "p0", 5, 600, 2, 0),
        task_sign_bytes("chain", KEY, "p0", 5, 600, 1, 1),
    ]
    assert len(set(documents)) == len(documents)


def test_a_share_is_included_until_its_validator_commits_it_or_it_is_compared() -> None:
    reason = int(ShareReason.INCLUDED)
    share = Share(CLAIM, bytes(64), bytes(32), 1, 1, ShareState.REJECTED, reason, 0, 0, (), None)
    assert is_included(share)
    assert not is_included(replace(share, reason=int(ShareReason.NO_ANSWER)))
    assert not is_included(replace(share, state=ShareState.RIGHT))
    assert not is_included(replace(share, state=ShareState.COMMITTED, reason=0))
