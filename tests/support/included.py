"""A market in which validators sign tasks, and providers put their commitments on chain themselves."""

from dataclasses import replace
from typing import Any

from domain.keys import ShareKey
from domain.proof.messages import MsgIncludeShare
from pol.rules.inclusion import task_sign_bytes
from tests.support.chain_harness import CHAIN_ID, pub_key, sign
from tests.support.chain_market import Trace
from tests.support.delivered import DeliveryMarket

TASK_SECONDS = 60


def sign_task(
    share: ShareKey, provider: str, deadline: int, every: int = 0, by: str = "v0", multiple: int = 1, cover: int = 0
) -> bytes:
    """Return a validator's signature of a task."""
    return sign(pub_key(by), task_sign_bytes(CHAIN_ID, share, provider, every, deadline, multiple, cover))


class InclusionMarket(DeliveryMarket):
    """A market whose providers can include their shares."""

    def include(self, trace: Trace, *, deadline: int | None = None, **changes: Any) -> MsgIncludeShare:
        """Return the message that includes a share of ``v0``'s task, by default before its deadline."""
        claim = trace.claim
        until = self.chain.clock + TASK_SECONDS if deadline is None else deadline
        message = MsgIncludeShare(
            provider=claim.provider,
            order_id=claim.order_id,
            leg=claim.leg,
            round=claim.round,
            slot=claim.slot,
            issue=claim.issue,
            commitment=claim.commitment,
            signature=trace.signed.signature,
            every=0,
            deadline=until,
            task_signature=sign_task(claim.key, claim.provider, until, multiple=claim.multiple, cover=claim.cover),
            multiple=claim.multiple,
            cover=claim.cover,
        )
        return replace(message, **changes)
