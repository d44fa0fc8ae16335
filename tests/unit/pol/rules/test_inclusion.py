"""The bytes that a validator signs for a task, and the shares that are on chain only because of their providers."""

from dataclasses import replace

import pytest

from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, ReceiptAsk, Share, ShareClaim, ShareState
from pol.rules.delivery import delivery_layout
from pol.rules.inclusion import (
    is_asking,
    is_included,
    is_witnessed,
    issue_name,
    task_sign_bytes,
    witnessed_piece,
)
from tests.support.chain_market import make_terms

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
MANIFEST = DeliveryManifest(root=bytes(32), key_hash=bytes(32), segments=4, update_chunks=1, every=0)
ASK = ReceiptAsk(*KEY, manifest=MANIFEST, seed=b"\x01" * 32)  # type: ignore[misc]


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


@pytest.mark.parametrize(
    ("witnesses", "signed", "enough"),
    [
        (0, 0, False),
        (1, 0, False),
        (1, 1, True),
        (2, 1, False),
        (3, 1, False),
        (3, 2, True),
        (6, 3, False),
        (6, 4, True),
    ],
)
def test_two_thirds_of_the_witnesses_are_a_receipt(witnesses: int, signed: int, enough: bool) -> None:
    names = tuple(f"v{number}" for number in range(witnesses))
    assert is_witnessed(replace(ASK, witnesses=names, signed=names[:signed])) is enough


def test_witnesses_sign_from_the_draw_until_their_time_is_over() -> None:
    assert is_asking(ASK, 10**6)
    assert is_asking(replace(ASK, until=10), 9)
    assert not is_asking(replace(ASK, until=10), 10)


def test_each_witness_shows_another_piece() -> None:
    layout = delivery_layout(make_terms(global_chunks=200), replace(MANIFEST, update_chunks=200))
    names = tuple(f"v{number}" for number in range(20))
    ask = replace(ASK, witnesses=names)
    pieces = {witnessed_piece(ask, name, layout) for name in names}
    assert len(pieces) == len(names)
    assert all(layout.locate(piece) is not None for piece in pieces)
    assert pieces != {witnessed_piece(replace(ask, seed=bytes(32)), name, layout) for name in names}


@pytest.mark.parametrize(
    ("issue", "task_issue", "name"),
    [(1, 0, "1"), (3, 3, "3"), (2**31 - 1, 0, "2147483647"), (2**31, 3, "3 (held)"), (2**31 + 4, 0, "held 5")],
)
def test_an_issue_that_the_chain_gave_is_shown_as_held(issue: int, task_issue: int, name: str) -> None:
    assert issue_name(issue, task_issue) == name
