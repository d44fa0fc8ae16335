"""The initial states of a leg. They come from the payload, or are the states at the end of an earlier leg of the
order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from domain.legs.records import Leg, LegState
from domain.proof.queries import OrderResponse
from domain.proof.records import Round
from link.types import StateRef
from validator.decide.records import LocalOrder, SlotLocal


def foreign_roots(on_chain: OrderResponse, leg: Leg) -> frozenset[bytes]:
    """Return the roots of those initial states of a leg that are not in the order's payload."""
    terms = on_chain.order.terms
    slots = {start.local_root for start in on_chain.starts if start.leg == leg.number}
    return frozenset({leg.initial_root} - {terms.global_root} | slots - {terms.local_root})


def wanting(orders: Iterable[OrderResponse], me: str) -> Iterator[tuple[Leg, frozenset[bytes]]]:
    """Yield each leg of ``me`` that waits for states of an earlier leg, with the roots of these states.

    Such a leg is matched, or runs in its first round.
    """
    for on_chain in orders:
        for leg in on_chain.legs:
            begins = leg.state is LegState.MATCHED or (leg.state is LegState.RUNNING and leg.round == leg.first_round)
            if leg.validator == me and begins:
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


def verified_roots(on_chain: OrderResponse, leg: Leg) -> tuple[bytes, ...]:
    """Return the roots of the states at the end of a leg's last verified round, each once, the global state's root
    first.
    """
    closed = on_chain.round(leg.number, leg.next_round - 1) if leg.verified else None
    return left_roots(on_chain, closed) if closed is not None else ()


def left_roots(on_chain: OrderResponse, closed: Round) -> tuple[bytes, ...]:
    """Return the roots of the states at the end of a round, each once, the global state's root first."""
    if not closed.next_root:
        return ()
    shares = (on_chain.share(key) for key in closed.share_keys)
    roots = (share.roots.local_out for share in shares if share is not None and share.roots is not None)
    return tuple(dict.fromkeys((closed.next_root, *roots)))


def served_roots(on_chain: OrderResponse, leg: Leg) -> tuple[bytes, ...]:
    """Return the roots of the states of a leg that may be asked for: those at the end of its last verified round, and
    those to which the order went back.
    """
    current = on_chain.current
    back = current is not None and current.verified_leg == leg.number
    closed = on_chain.round(leg.number, on_chain.order.next_round - 1) if back else None
    earlier = left_roots(on_chain, closed) if closed is not None else ()
    return tuple(dict.fromkeys((*verified_roots(on_chain, leg), *earlier)))


def sources_of(on_chain: OrderResponse, leg: Leg, finders: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the validators that may have the states from which a leg starts.

    The first of these validators made the states. Then come those that accepted a leg that started from the states, and
    the mirrors of the round that left the states, and the ``finders``: the seats of panels about these states.
    """
    last = on_chain.leg(leg.from_leg)
    later = (
        known.validator
        for known in on_chain.legs
        if (known.from_leg, known.first_round) == (leg.from_leg, leg.first_round)
        and known.number != leg.number
        and known.progress_deadline
    )
    closed = on_chain.round(leg.from_leg, leg.first_round - 1)
    mirrors = closed.mirrors if closed is not None else ()
    names = (last.validator if last is not None else "", *later, *mirrors, *finders)
    return tuple(name for name in dict.fromkeys(names) if name not in ("", leg.validator))


def get_sizes(on_chain: OrderResponse) -> tuple[int, ...]:
    """Return the sizes (bytes) that a state of an order may have: that of the global and that of a local state."""
    terms = on_chain.order.terms
    return terms.global_bytes, terms.local_bytes


def refusal(on_chain: OrderResponse, leg: Leg) -> str:
    """Return why this validator cannot train a leg; empty if it can."""
    terms = on_chain.order.terms
    if leg.slots == terms.slots:
        return ""
    return (
        f"the leg serves {leg.slots} of {terms.slots} slots: a round cannot be aggregated, because the updates of"
        " the other slots do not arrive here"
    )


def describe_missing(leg: Leg, missing: frozenset[bytes]) -> str:
    """Return the text for a leg whose initial states cannot be fetched."""
    names = ", ".join(root.hex()[:12] for root in sorted(missing)[:3])
    return (
        f"the leg starts from round {leg.first_round}, and this validator lacks {len(missing)} of its initial"
        f" states: {names}"
    )


def lacking(local: LocalOrder, on_chain: OrderResponse, leg: Leg) -> frozenset[bytes]:
    """Return the roots of those initial states of a leg that come from an earlier leg and are not yet in this leg's
    record.
    """
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
