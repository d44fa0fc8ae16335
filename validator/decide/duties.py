"""The duties of a validator's daemon, as values, and the decision about each of them.

A duty has a record, which is all that the daemon remembers of the duty. After each look at the chain, the daemon calls
``decide`` for every duty. By then, the record includes everything that has arrived since the last call. ``decide``
returns the updated record and every action whose outcome is missing. Actions have keys, and the daemon
(:mod:`host.lanes`) does not start an action that is under way. So a restart needs only the records: ``decide`` asks
again for every action that was under way.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from domain.market.records import OrderState
from validator.decide.actions import Action
from validator.decide.attest import decide_attest
from validator.decide.keeping import decide_kept
from validator.decide.mirrors import STAGE, decide_mirror
from validator.decide.orders import decide_leg
from validator.decide.records import (
    AttestKey,
    LegKey,
    LocalAttest,
    LocalOrder,
    LocalSeat,
    LocalUpkeep,
    LocalWitness,
    SeatKey,
    WitnessKey,
)
from validator.decide.seats import decide_seat
from validator.decide.upkeep import decide_upkeep
from validator.decide.view import Look
from validator.decide.witness import decide_witness


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The duty that does not depend on orders: the endpoint on the chain, the providers' speeds, and the disk."""


Duty = LegKey | SeatKey | WitnessKey | AttestKey | Upkeep
"""A leg that this validator won, or whose states it keeps as a mirror; a seat in a panel about another validator's
round; a mirror of such a round (its key has the stage 0); a delivery to witness; evidence to judge; or the upkeep."""
Record = LocalOrder | LocalSeat | LocalWitness | LocalAttest | LocalUpkeep


def duties(look: Look) -> Iterator[Duty]:
    """Yield all duties: first the upkeep, then the seats sorted by deadline, then the legs.

    Seats come before legs, because a missed seat costs stake. Legs of closed orders are included only in a whole look.
    """
    yield Upkeep()
    ends = {key: duty.commits_end for key, duty in look.chain.duties.items()}
    yield from sorted({*ends, *look.seats}, key=lambda key: (ends.get(key, 0), key))
    yield from sorted(look.chain.mirrored.keys() - set(look.seats))
    yield from sorted({*look.chain.witnessed, *look.witnesses})
    yield from sorted({*look.chain.attesting, *look.attests})
    for order_id, on_chain in look.chain.orders.items():
        for leg in on_chain.legs:
            live = on_chain.order.state != OrderState.CLOSED
            key = LegKey(order_id, leg.number)
            if (leg.validator == look.me and (live or look.chain.whole)) or key in look.chain.kept:
                yield key


def decide(duty: Duty, record: Record | None, look: Look) -> tuple[Record | None, tuple[Action, ...]]:
    """Return the updated record of a duty, and every action whose outcome is missing."""
    match duty, record:
        case LegKey(), LocalOrder():
            return decide_kept(record, look) if duty in look.chain.kept else decide_leg(record, look)
        case SeatKey(), LocalSeat() | None:
            return decide_mirror(duty, record, look) if duty.stage == STAGE else decide_seat(duty, record, look)
        case WitnessKey(), LocalWitness() | None:
            return decide_witness(duty, record, look)
        case AttestKey(), LocalAttest() | None:
            return decide_attest(duty, record, look)
        case Upkeep(), LocalUpkeep() | None:
            return decide_upkeep(record or LocalUpkeep(), look)
    # The record of the leg was deleted.
    return None, ()
