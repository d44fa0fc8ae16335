"""Records that the legs component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.bounds import Address, Bps, Count, Hash, MaybeHash, Money, Name, Number, Range, Slot, Work
from domain.keys import RoundKey
from domain.limits import ROUNDS_MAX, SLOTS_MAX


class LegState(IntEnum):
    """The state of a leg."""

    MATCHED = 1
    RUNNING = 2
    PROVEN = 3
    FAILED = 4
    DONE = 5


@dataclass(frozen=True, slots=True)
class Leg:
    """The part of an order that one bid serves: some or all rounds, and some or all slots of each of these rounds.

    Rounds and slots are numbered as in the order. The leg serves rounds ``first_round`` to ``end_round`` - 1, and in
    each of them slots ``first_slot`` to ``end_slot`` - 1. ``initial_root`` is the root of the global state from
    which the leg's first round starts. A :class:`SlotStart` has the local state from which a slot starts.
    """

    order_id: Hash
    number: Count
    bid_id: Hash
    validator: Address
    price: Money
    tier: Name
    first_round: Count
    rounds: Annotated[int, Range(1, ROUNDS_MAX)]
    first_slot: Slot
    slots: Annotated[int, Range(1, SLOTS_MAX)]
    work: Work
    job_bond: Money
    providers_bps: Bps
    slot_speed: Work  # the bid's speed for one slot in FLOP/s, from which the progress deadline is computed
    slots_at_once: Annotated[int, Range(1, SLOTS_MAX)]  # slots that the bid trains at the same time
    state: LegState
    end_reason: Count  # LegEnd, or 0 while the leg is active
    matched_at: Number
    accept_deadline: Number
    progress_deadline: Number
    round: Count  # number of the open round; equals `end_round` if all rounds are closed
    verified: Count  # number of verified rounds of this leg
    void: Count  # number of void rounds of this leg
    initial_root: Hash
    global_in: Hash  # global state root at the start of the open round
    settles_at: Number  # time at which all rounds were verified (chain clock); 0 before
    # The round after the last one that the consumer took before it was verified; 0 if there is none. The consumer gave
    # up the refunds of the unverified rounds before it.
    taken_end: Count = 0
    from_leg: Count = 0  # number of the leg whose verified round this leg continues; 0 if it begins the job
    verified_root: MaybeHash = b""  # global state root after the last verified round of this leg; empty before
    # Amount (uassay) withheld from the validator of a failed leg that still waits. It is paid at `part_until` unless
    # the consumer denies that the states of the last verified round were served.
    part: Money = 0
    part_until: Number = 0
    # Number of rounds that are verified, or wait only for the time in which the order lets them be challenged. Zero if
    # the order does not let them wait.
    cleared: Count = 0
    waived: Count = 0  # no account that may challenge will challenge the rounds before this one
    # The validator could not fetch the states from which the leg starts: twice the number of panels about them that are
    # over, and one more while a panel runs.
    asked: Count = 0
    asked_at: Number = 0  # time at which such a panel was over, and the time to accept began again; 0 before
    left_at: Number = 0  # time at which the leg failed while it was running, and left its open round; 0 otherwise
    # The states from which the leg would have started are lost, so the order goes back: the leg of the verified round
    # after which the next leg starts (0 if it starts from the payload), and the global state root there. The root is
    # empty if the order does not go back.
    back_leg: Count = 0
    back_root: MaybeHash = b""
    missed: Count = 0  # panels that the consumer asked for, because it was not served a result of the leg

    @property
    def end_round(self) -> int:
        """The number of the round after the last round that the leg serves."""
        return self.first_round + self.rounds

    @property
    def end_slot(self) -> int:
        """The number of the slot after the last slot that the leg serves."""
        return self.first_slot + self.slots

    @property
    def served_slots(self) -> range:
        """The slots that the leg serves."""
        return range(self.first_slot, self.end_slot)

    @property
    def closed(self) -> int:
        """The number of closed rounds of the leg."""
        return self.round - self.first_round

    @property
    def next_round(self) -> int:
        """The first round of the leg that is not verified."""
        return self.first_round + self.verified

    @property
    def uncleared(self) -> int:
        """The number of closed rounds that are not verified, and do not wait only for challenges."""
        return self.closed - max(self.verified, self.cleared)

    @property
    def verified_leg(self) -> int:
        """The number of the leg that has the verified round after which the order's next leg starts: this leg or an
        earlier one; 0 if the next leg starts from the payload.
        """
        if self.back_root:
            return self.back_leg
        return self.number if self.verified else self.from_leg

    @property
    def left_root(self) -> bytes:
        """The root of the global state from which the order's next leg starts."""
        return self.back_root or self.verified_root or self.initial_root

    @property
    def open_round(self) -> "RoundKey":
        """The key of the open round."""
        return RoundKey(self.order_id, self.number, self.round)

    def is_taken(self, round: int) -> bool:
        """Return whether the consumer took the states of a round before the round was verified, and so gave up the
        round's refund.
        """
        return round < self.taken_end

    @property
    def is_live(self) -> bool:
        """True if the leg occupies capacity of its bid: it is matched, running or proven."""
        return self.state in (LegState.MATCHED, LegState.RUNNING, LegState.PROVEN)


@dataclass(frozen=True, slots=True)
class SlotStart:
    """The local state that a slot of a leg starts from.

    A slot without such a record starts from the local state in the order's terms.
    """

    order_id: Hash
    leg: Count
    slot: Slot
    local_root: Hash
