"""Stands: a provider has its own share recomputed, because its validator rejected it, made it void, or left it open.

The panel of a stand recomputes a few places of the share. If the validator rejected the share as a mismatch, one of
them is the place at which the validator says that it found the mismatch. An honest validator has recomputed this place,
so a wrong share never passes. A validator that names a right place pays for the share.
"""

from domain.hashing import hash_fields
from domain.legs.reasons import LEFT_BY_VALIDATOR
from domain.legs.records import Leg
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.proof.reasons import MISMATCHES, UNANSWERED, ShareReason
from domain.proof.records import AuditKind, AuditPlace, Round, Share, ShareRoots, ShareState
from pol.rules.lots import draw
from pol.rules.panels import place_cost
from pol.rules.schedule import share_segments
from pol.rules.stops import stop_of

STAGES_PAID = 3
"""The bond of a stand pays for so many times the seats of a first stage: those of the first stage, and those of a
second one, which has twice as many."""


def is_mismatch(share: Share) -> bool:
    """Return whether the validator rejected a share because of what its commitment hides.

    If the validator had the content of a share, a rejection as unanswered or late counts as a mismatch too. So does a
    share that its provider had to include.
    """
    reasons = (MISMATCHES | UNANSWERED) if share.is_received else MISMATCHES
    return share.state in (ShareState.REJECTED, ShareState.WRONG) and share.reason in reasons


def can_stand(share: Share) -> bool:
    """Return whether the validator of a share had its content, so that the share's provider may stand for it.

    A validator that rejects a share as a mismatch says itself that it had the content. Otherwise the share must be
    received. A provider that never delivered anything has no claim.
    """
    return is_mismatch(share) or (share.is_received and (share.state is ShareState.ACCEPTED or is_left_open(share)))


def is_left_open(share: Share) -> bool:
    """Return whether a share kept its slot of the round that was open when its leg failed."""
    return share.state is ShareState.REJECTED and share.reason == ShareReason.LEG_ENDED


def left_round(leg: Leg) -> Round | None:
    """Return the round that was open when a leg failed, as a void round without accepted shares; None if none was.

    It counts as void since the leg failed. It is void by the validator's fault if the end of the leg was its fault.
    """
    if not leg.left_at:
        return None
    return Round(
        order_id=leg.order_id,
        leg=leg.number,
        round=leg.round,
        global_in=leg.global_in,
        next_root=b"",
        ciphertext_root=b"",
        shares=(),
        work=0,
        closed_at=leg.left_at,
        closed_height=0,
        window_ends=leg.left_at,
        verified=False,
        void=True,
        void_at=leg.left_at,
        by_validator=leg.end_reason in LEFT_BY_VALIDATOR,
    )


def stand_until(begun: int, window: int, stand_wait: int) -> int:
    """Return the time until which a provider may stand for a share (chain clock).

    ``begun`` is the time of the round's close, or the time at which the round became void or its leg left it open.
    """
    return begun + max(window, stand_wait)


def stand_bond(terms: JobTerms, params: OrderParams, value: int, places: int, price: int) -> int:
    """Return the bond (uassay) of a stand for a share that is worth ``value``.

    The bond pays the seats of two stages for ``places`` places, and is at least the value of the share. ``price`` is
    the price of the auditors' work.
    """
    kinds = (AuditKind.SEGMENT, AuditKind.UPDATE)
    cost = places * max(place_cost(terms, kind, price) for kind in kinds)
    return max(value, STAGES_PAID * params.auditors * (cost + params.answer_fee))


def draw_stand_places(
    seed: bytes, terms: JobTerms, share: Share, roots: ShareRoots, places: int
) -> tuple[AuditPlace, ...]:
    """Return the places of a share that the panel of its stand recomputes; all others are equally likely.

    The first place is the one at which the validator found the mismatch, if it rejected the share for this and the
    share has such a place. There are ``places`` places, or all of them if the share has fewer.
    """
    slot, issue = share.key.slot, share.key.issue
    stop = stop_of(terms, slot, issue, roots)
    own = [
        AuditPlace(kind=AuditKind.SEGMENT, slot=slot, issue=issue, segment=segment) for segment in range(roots.segments)
    ]
    if stop is not None:
        own.append(stop)
    elif roots.segments == share_segments(terms):
        own.append(AuditPlace(kind=AuditKind.UPDATE, slot=slot, issue=issue, segment=roots.segments))
    named = own[share.wrong_at : share.wrong_at + 1] if share.reason in MISMATCHES else []
    others = [place for place in own if place not in named]
    numbers = draw(hash_fields("assay/stand/places", seed), len(others), max(0, places - len(named)))
    return (*named, *(others[number] for number in numbers))
