"""What a leg starts from: the payload's states, or those that another leg of the same order has left here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from domain.legs.records import Leg, LegState
from domain.proof.queries import OrderResponse
from link.types import StateRef
from validator.decide.records import LocalOrder, SlotLocal


def foreign_roots(on_chain: OrderResponse, leg: Leg) -> frozenset[bytes]:
    """Return the roots of the states that a leg starts from and that the order's payload does not hold."""
    terms = on_chain.order.terms
    slots = {found.local_root for found in on_chain.openings if found.leg == leg.number}
    return frozenset({leg.opening_root} - {terms.global_root} | slots - {terms.local_root})


def wanting(orders: Iterable[OrderResponse], me: str) -> Iterator[tuple[Leg, frozenset[bytes]]]:
    """Yield the matched legs of ``me`` that start from states of another leg, and the roots of these states."""
    for on_chain in orders:
        for leg in on_chain.legs:
            if leg.validator == me and leg.state is LegState.MATCHED:
                roots = foreign_roots(on_chain, leg)
                if roots:
                    yield leg, roots


def states_of(local: LocalOrder) -> Iterator[StateRef]:
    """Yield the global states between the rounds of a leg, and the local states that its slots left."""
    if local.opening is not None:
        yield local.opening
    for item in local.locals:
        yield item.state
    for known in local.rounds:
        if known.next_global is not None:
            yield known.next_global
        for work in known.works:
            if work.packet is not None and work.packet.local_out is not None:
                yield StateRef(work.packet.roots.local_out, work.packet.local_out)


def refusal(local: LocalOrder, on_chain: OrderResponse, leg: Leg, held: Mapping[bytes, StateRef]) -> str:
    """Return why this validator cannot serve a leg, or an empty string."""
    terms = on_chain.order.terms
    if leg.slots != terms.slots:
        return (
            f"the leg serves {leg.slots} of {terms.slots} slots, and legs do not exchange updates:"
            " a round cannot be aggregated without those of the other slots"
        )
    missing = lacking(local, on_chain, leg) - held.keys()
    if missing:
        names = ", ".join(root.hex()[:12] for root in sorted(missing)[:3])
        return (
            f"the leg starts from round {leg.first_round}, and {len(missing)} of the states that it"
            f" starts from are not held here: {names}"
        )
    return ""


def lacking(local: LocalOrder, on_chain: OrderResponse, leg: Leg) -> frozenset[bytes]:
    """Return the roots of states of another leg that the record of this one does not name yet."""
    roots = foreign_roots(on_chain, leg)
    # Mostly there are none.
    return roots - {state.root for state in states_of(local)} if roots else roots


def opening_state(local: LocalOrder, leg: Leg) -> StateRef | None:
    """Return the global state that the open round of a leg starts from, if it is held."""
    if leg.round != leg.first_round:
        before = local.find(leg.round - 1)
        return before.next_global if before else None
    known = (local.opening, local.payload.initial_global)
    return next((s for s in known if s is not None and s.root == leg.opening_root), None)


def openings_taken(local: LocalOrder, opening: StateRef | None, slots: tuple[SlotLocal, ...]) -> LocalOrder:
    """Record the states of another leg that this one starts from, before it has a round of its own."""
    return local if local.rounds else replace(local, opening=opening, locals=slots)


def openings_from(
    on_chain: OrderResponse, leg: Leg, held: Mapping[bytes, StateRef]
) -> tuple[StateRef | None, tuple[SlotLocal, ...]]:
    """Return the held global state that a leg starts from, and the local states of its slots."""
    slots = {found.slot: found for found in on_chain.openings if found.leg == leg.number}
    locals_ = (
        SlotLocal(slot, held[slots[slot].local_root]) for slot in sorted(slots) if slots[slot].local_root in held
    )
    return held.get(leg.opening_root), tuple(locals_)
