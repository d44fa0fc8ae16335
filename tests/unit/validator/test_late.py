"""Deliveries whose keys come on the chain after their leg failed, or after a rejection."""

from dataclasses import replace
from typing import Any

import pytest

from domain.legs.records import LegState
from domain.proof.messages import MsgReceipt, MsgShowChunk
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import DeliveryManifest, Share, ShareState, ShownDelivery, ShownPiece
from link.types import BlobRef, DeliveryOffer
from tests.support.chain_market import digest
from tests.unit.validator.support import ORDER_ID, chain, loaded, packet_of, share_key, share_of, signed_of, view, works
from validator.decide import actions as do
from validator.decide.orders import decide_order as decide
from validator.decide.receive import delivery_opened, delivery_wrong
from validator.decide.records import LocalOrder, SlotWork, WrongPieces
from validator.decide.retention import needed_blobs

SECRET = digest("secret")
OFFER = DeliveryOffer(
    share_key(), DeliveryManifest(digest("m"), digest("k"), 4, 1, 0), bytes(64), BlobRef(digest("c"), 9)
)
WRONG = WrongPieces(ShownPiece(0, b"noise", ()), None)
OPEN = f"{ORDER_ID.hex()}/1/0/0/1/open"


def delivered(**changes: Any) -> LocalOrder:
    """Return a leg whose provider sent the ciphertext of slot 0, and got a receipt."""
    local = decide(loaded(), view(chain()))[0]
    (current,) = local.rounds
    first, *others = current.works
    assert first.slot == 0
    work = replace(first, signed=signed_of(local, first), offer=OFFER, receipt_at=10, **changes)
    return local.put(replace(current, works=(work, *others)))


def first(local: LocalOrder) -> SlotWork:
    return next(work for work in works(local) if work.slot == 0)


def left(local: LocalOrder, *, key: bytes = SECRET, is_received: bool = True, **changes: Any) -> OrderResponse:
    """Return the chain after the leg stopped; the provider has shown its key."""
    signed = first(local).signed
    assert signed is not None
    share: Share = share_of(
        signed, **{"state": ShareState.REJECTED, "reason": ShareReason.LEG_ENDED, "is_received": is_received, **changes}
    )
    packet = packet_of(local, first(local))
    shown = ShownDelivery(ORDER_ID, 1, 0, 0, 1, OFFER.manifest, 0, key, packet.roots if key else None)
    assigned = {"state": LegState.FAILED, "left_at": 12, "end_reason": 10014}
    return chain(shares=(share,), deliveries=(shown,), assigned=assigned)


def shown_pieces(actions: tuple[do.Action, ...]) -> list[MsgShowChunk]:
    sent = (message for action in actions if isinstance(action, do.SendTx) for message in action.messages)
    return [message for message in sent if isinstance(message, MsgShowChunk)]


def test_a_delivery_is_decrypted_although_its_leg_failed_and_noise_is_shown() -> None:
    local = delivered()
    on_chain = left(local)
    local, actions = decide(local, view(on_chain))
    assert do.OpenDelivery(OPEN, share_key(), on_chain.order.terms) in actions
    assert not shown_pieces(actions)
    local = delivery_wrong(local, share_key(), WRONG)
    local, actions = decide(local, view(on_chain))
    (message,) = shown_pieces(actions)
    assert (message.slot, message.issue, message.piece) == (0, 1, WRONG.piece)
    # The chain took it: the share is not received any more.
    assert not shown_pieces(decide(local, view(left(local, is_received=False)))[1])


def test_a_right_delivery_is_opened_once_and_shown_to_nobody() -> None:
    local = delivered()
    on_chain = left(local)
    local, _ = decide(local, view(on_chain))
    local = delivery_opened(local, on_chain.order.terms, "assay-test", packet_of(local, first(local)), ())
    work = first(local)
    local = local.put(replace(local.rounds[0], works=(replace(work, packet=packet_of(local, work), verdict=0),)))
    actions = decide(local, view(on_chain))[1]
    assert not any(isinstance(action, do.OpenDelivery) for action in actions)
    assert not shown_pieces(actions)


def test_a_segment_that_ends_in_no_states_is_wrong_where_it_ends() -> None:
    """Else a seat could not recompute the next segment, and the validator would pay for what its provider delivered."""
    local = delivered()
    on_chain = left(local)
    local, _ = decide(local, view(on_chain))
    packet = packet_of(local, first(local))
    local = delivery_opened(local, on_chain.order.terms, "assay-test", packet, (), no_states=(3,))
    (checked,) = first(local).checked
    assert (checked.segment, checked.reason) == (2, ShareReason.SEGMENT_MISMATCH)


def test_what_was_found_wrong_over_the_link_is_shown_when_the_key_is_on_chain() -> None:
    local = delivered(secret=SECRET, wrong=WRONG)
    assert not shown_pieces(decide(local, view(left(local, key=b"", is_received=False)))[1])
    assert shown_pieces(decide(local, view(left(local)))[1])


def committed(local: LocalOrder, *deliveries: ShownDelivery, is_received: bool = False) -> OrderResponse:
    """Return the chain with the commitment of slot 0."""
    signed = first(local).signed
    assert signed is not None
    return chain(shares=(share_of(signed, is_received=is_received, drawn=(), is_drawn=False),), deliveries=deliveries)


def test_a_wrong_delivery_over_the_link_is_put_on_chain_before_its_slot_goes_on() -> None:
    """Otherwise its provider delivers the right one to witnesses, and is paid for a slot that another one has, too."""
    local = delivered(secret=SECRET, wrong=WRONG)
    local, actions = decide(local, view(committed(local)))
    assert not first(local).verdict
    sent = [message for action in actions if isinstance(action, do.SendTx) for message in action.messages]
    (receipt,) = (message for message in sent if isinstance(message, MsgReceipt))
    assert (receipt.slot, receipt.manifest) == (0, OFFER.manifest)
    posted = ShownDelivery(ORDER_ID, 1, 0, 0, 1, OFFER.manifest, 50)
    for clock, verdict in ((49, ShareReason.NONE), (50, ShareReason.NO_ANSWER)):
        assert first(decide(local, view(committed(local, posted), clock))[0]).verdict == verdict
    shown = replace(posted, key=SECRET, roots=packet_of(local, first(local)).roots)
    assert shown_pieces(decide(local, view(committed(local, shown, is_received=True)))[1])


def test_another_delivery_that_witnesses_have_replaces_a_wrong_one() -> None:
    local = delivered(secret=SECRET, wrong=WRONG, offer_holds=True)
    other = replace(OFFER.manifest, root=digest("other"))
    posted = ShownDelivery(ORDER_ID, 1, 0, 0, 1, other, 50, SECRET, packet_of(local, first(local)).roots)
    work = first(decide(local, view(committed(local, posted, is_received=True)))[0])
    assert (work.offer, work.offer_holds, work.secret, work.roots, work.wrong) == (None, False, b"", None, None)


@pytest.mark.parametrize("reason", [ShareReason.NO_ANSWER, ShareReason.SEGMENT_MISMATCH])
def test_a_share_that_was_rejected_is_not_opened_again(reason: ShareReason) -> None:
    local = delivered(verdict=reason, settled=True)
    actions = decide(local, view(left(local, reason=reason)))[1]
    assert not any(isinstance(action, do.OpenDelivery) for action in actions)


def test_a_delivery_that_is_not_opened_is_kept_until_the_order_closes() -> None:
    local = delivered()
    on_chain = left(local)
    kept = needed_blobs(local, on_chain, {}, 100)
    assert OFFER.ciphertext.sha256 in kept
    assert {file.blob.sha256 for file in local.payload.files} <= kept
    assert not needed_blobs(delivered(wrong=WRONG), on_chain, {}, 100)
