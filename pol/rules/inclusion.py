"""Inclusion: a provider puts its commitment on chain itself, because its validator did not.

A validator signs each task that it gives out. Until the deadline of the task, its provider needs nothing else to put
the commitment on chain. The share locks its bond, but keeps no slot, so it delays nothing. It is kept beside the
rejected shares of its round, and it is compared like one of them.
"""

from domain.hashing import encode_fields, u32, u64
from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareState


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


def is_included(share: Share) -> bool:
    """Return whether a share is on chain only because its provider put it there, so that it keeps no slot."""
    return share.state is ShareState.REJECTED and share.reason == ShareReason.INCLUDED
