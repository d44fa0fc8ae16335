"""The decision about a mirror that keeps the states which another validator's last verified round left.

An order whose leg fails continues from the states of its last verified round. If only the validator that failed had
these states, its disk would decide whether the order can continue. So a mirror of the round fetches these states once
the round is verified, and serves them to the validator of the next leg and to the consumer.

The record is that of a leg, but of another validator's. It names only the states. The states before are dropped as soon
as those of a newer verified round are here, and everything when the order closes, or when another leg has verified
rounds. If the newest states are lost, the order may go back to the states before.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from domain.legs.records import Leg
from domain.market.records import JobTerms, OrderState
from domain.proof.queries import OrderResponse
from link.types import StateRef
from validator.decide.actions import Action, ForgetLeg, KeepStates, Tidy
from validator.decide.initial import get_sizes, served_roots, verified_roots
from validator.decide.records import LegKey, LocalOrder
from validator.decide.view import Look

STATES_PART = 2
"""The states that a mirror keeps fill at most this part of what it keeps for a validator: a half."""


def get_state_bytes(terms: JobTerms) -> int:
    """Return the most bytes of the states that a mirror keeps, by the order's terms: those at the end of two rounds,
    because the older ones stay until the newer ones are here.
    """
    return 2 * (terms.global_bytes + terms.slots * terms.local_bytes)


def is_newest(on_chain: OrderResponse, leg: Leg) -> bool:
    """Return whether an open order's last verified round is a round of this leg."""
    current = on_chain.current
    return on_chain.order.state is not OrderState.CLOSED and current is not None and current.verified_leg == leg.number


def is_mirror(on_chain: OrderResponse, leg: Leg, address: str) -> bool:
    """Return whether the last verified round of a leg names a validator as one of its mirrors."""
    closed = on_chain.round(leg.number, leg.next_round - 1) if leg.verified else None
    return closed is not None and address in closed.mirrors


def choose_kept(
    orders: Iterable[OrderResponse], winner: str, me: str, recorded: Collection[LegKey], most: int
) -> tuple[tuple[LegKey, ...], int]:
    """Return the legs of ``winner`` whose states this daemon keeps, up to ``most`` bytes, and the bytes that are left.

    Legs that have a record come first.
    """
    sizes = {
        LegKey(leg.order_id, leg.number): get_state_bytes(on_chain.order.terms)
        for on_chain in orders
        for leg in on_chain.legs
        if leg.validator == winner and is_newest(on_chain, leg) and is_mirror(on_chain, leg, me)
    }
    chosen: list[LegKey] = []
    for key in sorted(sizes, key=lambda key: (key not in recorded, str(key))):
        if sizes[key] <= most:
            most -= sizes[key]
            chosen.append(key)
    return tuple(chosen), most


def decide_kept(local: LocalOrder, look: Look) -> tuple[LocalOrder, tuple[Action, ...]]:
    """Return the updated record of the states that a mirror keeps, and the actions that fetch what is missing."""
    on_chain = look.chain.orders[local.order_id]
    leg = on_chain.leg(local.leg)
    name = str(local.key)
    if leg is None or not is_newest(on_chain, leg):
        return local, (ForgetLeg(f"{name}/forget", local.key),)
    roots = frozenset(verified_roots(on_chain, leg))
    missing = roots - {state.root for state in local.fetched}
    if not missing:
        local = replace(local, fetched=_among(local.fetched, served_roots(on_chain, leg)), offered=())
    actions: list[Action] = []
    if look.chain.whole:
        blobs = [state.blob for state in (*local.fetched, *local.offered)]
        blobs += [found.sealed.blob for found in local.results]
        needed = frozenset(blob.sha256 for blob in blobs)
        actions.append(Tidy(f"{name}/tidy", local.key, needed))
    if missing and is_mirror(on_chain, leg, look.me):
        keep = KeepStates(
            key=f"{name}/keep-states",
            leg=local.key,
            source=leg.number,
            sources=(leg.validator,),
            roots=missing,
            sizes=get_sizes(on_chain),
        )
        actions.append(keep)
    return local, tuple(actions)


def _among(states: Iterable[StateRef], roots: Collection[bytes]) -> tuple[StateRef, ...]:
    return tuple(state for state in states if state.root in roots)
