"""Records that the legs component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import Address, Bps, Count, Hash, Money, Number, Range, Work
from domain.keys import RoundKey
from domain.limits import SLOTS_MAX


class LegState(IntEnum):
    """Where a leg stands."""

    MATCHED = 1
    RUNNING = 2
    PROVEN = 3
    FAILED = 4
    DONE = 5


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg of an order by one validator."""

    order_id: Hash
    number: Count
    validator: Address
    bid_id: Hash
    price: Money
    work: Work
    job_bond: Money
    providers_bps: Bps
    slot_speed: Work  # the bid's FLOP/s for one slot, for the progress deadline
    slots: Annotated[int, Range(1, SLOTS_MAX)]  # the bid's slots at once
    state: LegState
    end_reason: Count  # LegEnd, 0 while it lives
    matched_at: Number
    accept_deadline: Number
    progress_deadline: Number
    round: Count  # the open round, from 0; equals `rounds` when all are closed
    global_in: Hash  # global state root at the start of the open round
    settles_at: Number  # chain clock, once all rounds are verified; 0 before

    @property
    def open_round(self) -> "RoundKey":
        """The round that is open."""
        return RoundKey(self.order_id, self.number, self.round)

    @property
    def is_live(self) -> bool:
        """Whether it holds capacity: it is matched, running or proven."""
        states = LegState
        return self.state in (states.MATCHED, states.RUNNING, states.PROVEN)
