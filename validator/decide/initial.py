"""The initial states of a leg: those of the payload, or those that an earlier leg of the order left on this machine."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from domain.legs.records import Leg, LegState
from domain.proof.queries import OrderResponse
from link.types import StateRef
from validator.decide.records import LocalOrder, SlotLocal


def foreign_roots(on_chain: OrderResponse, leg: Leg) -> frozenset[bytes]:
    """Return the roots of those initial states of a leg that are not in the order's payload."""
    terms = on_chain.order.terms
    slots = {start.local_root for start in on_chain.starts if start.leg == leg.number}
    return frozenset({leg.initial_root} - {terms.global_root} | slots - {terms.local_root})


def wanting(orders: Iterable[OrderResponse], me: str) -> Iterator[tuple[Leg, frozenset[bytes]]]:
    """Yield each matched leg of ``me`` that starts from states of an earlier leg, with the roots of these states."""
    for on_chain in orders:
        for leg in on_chain.legs:
            if leg.validator == me and leg.state is LegState.MATCHED:
                roots = foreign_roots(on_chain, leg)
                if roots:
                    yield leg, roots


def states_of(local: LocalOrder) -> Iterator[StateRef]:
    """Yield the global states between the rounds of a leg, and the slots' local states after each round."""
    if local.earlier_global is not None:
        yield local.earlier_global
    for item in local.locals:
        yield item.state
    for known in local.rounds:
        if known.next_global is not None:
            yield known.next_global
        for work in known.works:
            if work.packet is not None and work.packet.local_out is not None:
                yield StateRef(work.packet.roots.local_out, work.packet.local_out)


def refusal(local: LocalOrder, on_chain: OrderResponse, leg: Leg, held: Mapping[bytes, StateRef]) -> str:
    """Return why this validator cannot train a leg; empty if it can.

    ``held`` has the states of earlier legs that are on this machine, by root.
    """
    terms = on_chain.order.terms
    if leg.slots != terms.slots:
        return (
            f"the leg serves {leg.slots} of {terms.slots} slots: a round cannot be aggregated, because the updates of"
            " the other slots do not arrive here"
        )
    missing = lacking(local, on_chain, leg) - held.keys()
    if missing:
        names = ", ".join(root.hex()[:12] for root in sorted(missing)[:3])
        return (
            f"the leg starts from round {leg.first_round}, and this validator lacks {len(missing)} of its initial"
            f" states: {names}"
        )
    return ""


def lacking(local: LocalOrder, on_chain: OrderResponse, leg: Leg) -> frozenset[bytes]:
    """Return the roots of a leg's initial states that come from an earlier leg and are not in this leg's record yet."""
    roots = foreign_roots(on_chain, leg)
    # Usually there are no such roots, and then the walk through the record is skipped.
    return roots - {state.root for state in states_of(local)} if roots else roots


def initial_state(local: LocalOrder, leg: Leg) -> StateRef | None:
    """Return the initial global state of a leg's open round; None if it is not here yet."""
    if leg.round != leg.first_round:
        before = local.find(leg.round - 1)
        return before.next_global if before else None
    known = (local.earlier_global, local.payload.initial_global)
    return next((s for s in known if s is not None and s.root == leg.initial_root), None)


def initial_states_taken(
    local: LocalOrder, earlier_global: StateRef | None, slots: tuple[SlotLocal, ...]
) -> LocalOrder:
    """Record the initial states that come from an earlier leg. Change nothing if this leg already has a round."""
    return local if local.rounds else replace(local, earlier_global=earlier_global, locals=slots)


def initial_states_from(
    on_chain: OrderResponse, leg: Leg, held: Mapping[bytes, StateRef]
) -> tuple[StateRef | None, tuple[SlotLocal, ...]]:
    """Return the initial states of a leg that are in ``held``: the global state, and the local states of its slots."""
    slots = {start.slot: start for start in on_chain.starts if start.leg == leg.number}
    locals_ = (
        SlotLocal(slot, held[slots[slot].local_root]) for slot in sorted(slots) if slots[slot].local_root in held
    )
    return held.get(leg.initial_root), tuple(locals_)
