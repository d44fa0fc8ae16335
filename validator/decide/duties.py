"""Everything that a validator's daemon has to do, as values, and what it does about each of them now.

A duty has a record, which is all that the daemon remembers of it. ``decide`` is asked about it again and again, with
whatever has arrived since, and returns the record as it is now and every action whose outcome is still missing; actions
have keys, and the shell (:mod:`host.lanes`) does not start one twice while it is under way. So a restart needs nothing
but the records: what was under way is simply asked for again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from domain.market.records import OrderState
from validator.decide.actions import Action
from validator.decide.orders import decide_leg
from validator.decide.records import LegKey, LocalOrder, LocalSeat, LocalUpkeep, SeatKey
from validator.decide.seats import decide_seat
from validator.decide.upkeep import decide_upkeep
from validator.decide.view import Look


@dataclass(frozen=True, slots=True)
class Upkeep:
    """To see to the endpoint on chain, the speeds of providers, and the disk."""


Duty = LegKey | SeatKey | Upkeep
"""A leg that this validator won; a seat in a panel about another's round; what there is to do without either."""
Record = LocalOrder | LocalSeat | LocalUpkeep


def duties(look: Look) -> Iterator[Duty]:
    """Yield what there is to do: seats first, the most urgent before the others, because silence on them is cut.

    Orders that are closed follow at whole looks only.
    """
    yield Upkeep()
    ends = {key: duty.commits_end for key, duty in look.chain.duties.items()}
    yield from sorted({*ends, *look.seats}, key=lambda key: (ends.get(key, 0), key))
    for order_id, on_chain in look.chain.orders.items():
        for leg in on_chain.legs:
            live = on_chain.order.state != OrderState.CLOSED
            if leg.validator == look.me and (live or look.chain.whole):
                yield LegKey(order_id, leg.number)


def decide(duty: Duty, record: Record | None, look: Look) -> tuple[Record | None, tuple[Action, ...]]:
    """Return the record of a duty as it is now, and every action whose outcome is missing."""
    match duty, record:
        case LegKey(), LocalOrder():
            return decide_leg(record, look)
        case SeatKey(), LocalSeat() | None:
            return decide_seat(duty, record, look)
        case Upkeep(), LocalUpkeep() | None:
            return decide_upkeep(record or LocalUpkeep(), look)
    # A leg that was forgotten.
    return None, ()
