"""Inclusion: a provider puts its commitment on chain itself, because its validator did not.

A validator signs each task that it gives out. Until the deadline of the task, its provider needs nothing else to put
the commitment on chain. The share locks its bond, but keeps no slot, so it delays nothing. It is kept beside the
rejected shares of its round, and it is compared like one of them.

If the validator signs no receipt for the delivery of the share, the provider asks for a receipt of witnesses. Strangers
are drawn. The provider sends them the ciphertext, and they serve it to the validator. If two thirds of them state that
it arrived, this counts as a receipt.
"""

from domain.amount import ceil_div
from domain.hashing import encode_fields, hash_fields, u32, u64
from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from domain.proof.records import ReceiptAsk, Share, ShareState
from pol.rules.delivery import DeliveryLayout


def task_sign_bytes(
    chain_id: str, share: ShareKey, provider: str, every: int, deadline: int, multiple: int, cover: int
) -> bytes:
    """Return the bytes that a validator signs for a task: ``provider`` trains ``share``.

    The delivery has the states at every ``every``-th boundary. Until second ``deadline`` of the chain's clock, the
    provider may put its commitment on chain itself. Its bond is ``multiple`` times the price of the share. ``cover``
    (bps) is the part of the job bond that pays the share if another provider's fault makes it void.
    """
    numbers = (share.leg, share.round, share.slot, share.issue)
    return encode_fields(
        "assay/task",
        chain_id,
        share.order_id,
        *(u32(number) for number in numbers),
        provider,
        u32(every),
        u64(deadline),
        u32(multiple),
        u32(cover),
    )


HELD_ISSUES_FROM = 2**31
"""The first issue number that the chain gives by itself. Validators issue tasks with lower numbers."""
HELD_SHARES_MAX = 2**31 - 1
"""Most shares of an order with such a number, so that the number fits its field."""


def issue_name(issue: int, task_issue: int = 0) -> str:
    """Return an issue as people read it. A held share is named by the issue of its task, if that is given."""
    if issue < HELD_ISSUES_FROM:
        return str(issue)
    return f"{task_issue} (held)" if task_issue else f"held {issue - HELD_ISSUES_FROM + 1}"


def is_included(share: Share) -> bool:
    """Return whether a share is on chain only because its provider put it there, so that it keeps no slot."""
    return share.state is ShareState.REJECTED and share.reason == ShareReason.INCLUDED


WITNESSES_PER_AUDITOR = 2
"""Number of witnesses of a delivery for each seat in the first stage of a panel."""


def count_witnesses(auditors: int) -> int:
    """Return the largest number of witnesses of a delivery; there are fewer if there are fewer strangers."""
    return WITNESSES_PER_AUDITOR * auditors


def is_witnessed(ask: ReceiptAsk) -> bool:
    """Return whether two thirds of the witnesses have stated that the delivery arrived."""
    return bool(ask.witnesses) and len(ask.signed) >= ceil_div(2 * len(ask.witnesses), 3)


def is_asking(ask: ReceiptAsk, clock: int) -> bool:
    """Return whether witnesses can still state that a delivery arrived, at the chain's ``clock`` (seconds)."""
    return not ask.until or clock < ask.until


def witnessed_piece(ask: ReceiptAsk, witness: str, layout: DeliveryLayout) -> int:
    """Return the number of the piece of which one of a delivery's witnesses has to show the hash.

    No two witnesses have the same piece, unless there are fewer pieces than witnesses. So a witness that has nothing
    cannot copy another one's message.
    """
    first = int.from_bytes(hash_fields("assay/witness", ask.seed)[:8], "big")
    return (first + ask.witnesses.index(witness)) % layout.count
