"""Shares that a leg takes over from the void round of the leg before it, when the validator continues.

The chain moves these shares by itself. The validator has their contents in the record of the earlier leg. It goes on
with them, and issues again only the slots whose shares were found wrong.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from domain.ledger.records import BondKind, BondRow
from domain.legs.reasons import LegEnd
from domain.legs.records import Leg
from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.records import AuditKind, Round, Ruling, Share, ShareState
from validator.decide.records import LocalOrder, LocalRound, SlotWork


def begins(leg: Leg) -> bool:
    """Return whether a leg is in its first round, and may take over shares of an earlier leg."""
    return leg.number > 1 and leg.round == leg.first_round


def take_over(local: LocalOrder, leg: Leg, current: LocalRound, shares: Mapping[tuple[int, int], Share]) -> LocalOrder:
    """Add the work of the shares that the chain has moved into the open round, from the record of the earlier leg.

    ``shares`` are the shares of the open round on the chain. After the first round, the record of the earlier leg is no
    longer needed.
    """
    if not begins(leg):
        return replace(local, left=()) if local.left else local
    known = {(work.slot, work.issue) for work in current.works}
    missing = {key: share for key, share in shares.items() if share.taken_by and key not in known}
    left = next((each for each in local.left if each.round == current.round), None)
    if not missing or left is None:
        return local
    found = [work for work in left.works if _is_work_of(work, missing.get((work.slot, work.issue)))]
    # The issues of a slot are in ascending order.
    return local.put(replace(current, works=(*found, *current.works)))


def _is_work_of(work: SlotWork, share: Share | None) -> bool:
    return share is not None and work.signed is not None and work.signed.claim == share.claim


def awaited_slots(on_chain: OrderResponse, leg: Leg) -> frozenset[int]:
    """Return the slots whose shares the chain still has to move into a leg's open round.

    The bond of such a share is still locked under the earlier leg. No bond is left of a share that was found wrong.
    """
    before = on_chain.round(leg.number - 1, leg.round) if begins(leg) else None
    if before is None or not before.void:
        return frozenset()
    locked = {(row.leg, row.round, row.slot, row.issue) for row in _share_bonds(on_chain)}
    shares = (on_chain.share(key) for key in before.share_keys)
    return frozenset(
        share.claim.slot
        for share in shares
        if share is not None
        and share.state is ShareState.ACCEPTED
        and (share.key.leg, share.key.round, share.key.slot, share.key.issue) in locked
    )


def _share_bonds(on_chain: OrderResponse) -> Iterable[BondRow]:
    return (row for row in on_chain.escrow.bonds if row.kind is BondKind.SHARE)


def next_issue(on_chain: OrderResponse, leg: Leg, slot: int) -> int:
    """Return the number of the first new issue of a slot in a leg's open round.

    The numbers of a slot go on if shares of the round are taken over.
    """
    if not begins(leg):
        return 1
    earlier = (share.claim for share in on_chain.shares_of(leg.number - 1, leg.round).values())
    return 1 + max((claim.issue for claim in earlier if claim.slot == slot), default=0)


def found_wrong(on_chain: OrderResponse, leg: Leg) -> tuple[str, ...]:
    """Return the providers of shares in the earlier leg's void round that a panel found wrong."""
    before = on_chain.leg(leg.number - 1) if begins(leg) else None
    if before is None or before.end_reason != LegEnd.WRONG_SHARE:
        return ()
    shares = on_chain.shares_of(before.number, leg.round)
    wrong = (
        shares.get((place.place.slot, place.place.issue))
        for panel in on_chain.panels
        if (panel.leg, panel.round) == (before.number, leg.round) and panel.standing is None
        for place in panel.places
        if place.ruling is Ruling.WRONG and place.place.kind is AuditKind.SEGMENT
    )
    return tuple(share.claim.provider for share in wrong if share is not None)


def may_be_taken_over(on_chain: OrderResponse, closed: Round) -> bool:
    """Return whether the next leg may take over the shares of a void round, because no later leg has begun."""
    leg = on_chain.leg(closed.leg)
    if leg is None or leg.end_reason != LegEnd.WRONG_SHARE or on_chain.order.state is OrderState.CLOSED:
        return False
    return closed.void and not closed.by_validator and on_chain.order.legs == closed.leg
