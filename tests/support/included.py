"""A market in which validators sign tasks, and providers put their commitments on chain themselves."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

from domain.keys import ShareKey
from domain.proof.messages import MsgAskReceipt, MsgIncludeShare, MsgWitness
from domain.proof.records import ReceiptAsk
from pol.rules.delivery import delivery_layout
from pol.rules.inclusion import task_sign_bytes, witnessed_piece
from tests.support.chain_harness import CHAIN_ID, pub_key, sign
from tests.support.chain_market import Trace, sign_share
from tests.support.delivered import DeliveryMarket, Sent

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

    def ask(self, sent: Sent, *, deadline: int | None = None, **changes: Any) -> MsgAskReceipt:
        """Return the message that asks for a receipt of witnesses, by default before the deadline of the task."""
        claim = sent.claim
        until = self.chain.clock + TASK_SECONDS if deadline is None else deadline
        message = MsgAskReceipt(
            provider=claim.provider,
            order_id=claim.order_id,
            leg=claim.leg,
            round=claim.round,
            slot=claim.slot,
            issue=claim.issue,
            commitment=claim.commitment,
            signature=sign_share(claim).signature,
            every=0,
            deadline=until,
            task_signature=sign_task(claim.key, claim.provider, until, multiple=claim.multiple, cover=claim.cover),
            manifest=sent.manifest,
            multiple=claim.multiple,
            cover=claim.cover,
        )
        return replace(message, **changes)

    def ask_of(self, sent: Sent) -> ReceiptAsk:
        """Return the request for a receipt of a share."""
        found = self.all_of(sent.claim.order_id).ask(self.key_of(sent.claim))
        if found is None:
            raise AssertionError("no one asked for witnesses")
        return found

    def wait_witnesses(self, sent: Sent) -> ReceiptAsk:
        """Pass blocks until the witnesses of a delivery are drawn, and return the request."""
        while not self.ask_of(sent).until:
            self.chain.block()
        return self.ask_of(sent)

    def witness(self, sent: Sent, name: str, **changes: Any) -> MsgWitness:
        """Return the message of a witness that has the delivery."""
        key, ask = self.key_of(sent.claim), self.ask_of(sent)
        number = witnessed_piece(ask, name, delivery_layout(self.order(key.order_id).terms, ask.manifest))
        piece = sent.piece(number)
        message = MsgWitness(
            validator=name,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            size=len(piece.ciphertext),
            digest=sha256(piece.ciphertext).digest(),
            path=piece.path,
        )
        return replace(message, **changes)
