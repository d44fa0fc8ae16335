"""Events that the legs component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class OrderMatched(Change):
    """The auction matched an order with a bid. The bid serves some or all of the order's rounds and slots.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderMatched):
                print(event.validator, event.price)
    """

    KIND: ClassVar[str] = "order.matched"
    order: bytes
    leg: int
    validator: str
    bid: bytes
    price: int
    job_bond: int
    work: int
    tier: str
    first_round: int
    rounds: int
    first_slot: int
    slots: int
    initial_root: bytes
    matched_at: int
    accept_deadline: int
    from_leg: int


@dataclass(frozen=True, slots=True)
class SlotStarted(Change):
    """A slot of a leg starts from a local state that is not the local state in the order's terms."""

    KIND: ClassVar[str] = "leg.slot"
    order: bytes
    leg: int
    slot: int
    local_root: bytes


@dataclass(frozen=True, slots=True)
class OrderAccepted(Change):
    """A validator accepted a match.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderAccepted):
                print(event.validator)
    """

    KIND: ClassVar[str] = "order.accepted"
    order: bytes
    leg: int
    validator: str


@dataclass(frozen=True, slots=True)
class ProgressRestarted(Change):
    """The deadline for closing the open round of a leg was set to ``deadline`` on the chain clock."""

    KIND: ClassVar[str] = "order.progress"
    order: bytes
    leg: int
    deadline: int


@dataclass(frozen=True, slots=True)
class LegDeadlinesMoved(Change):
    """The deadlines of an active leg moved by the time for which its order was held."""

    KIND: ClassVar[str] = "leg.deadlines"
    order: bytes
    leg: int
    accept_deadline: int
    progress_deadline: int


@dataclass(frozen=True, slots=True)
class OrderProven(Change):
    """A leg closed its last round, or the round in which the job stopped. After this event, only the audits and windows
    of closed rounds remain.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderProven):
                print("trained in leg", event.leg)
    """

    KIND: ClassVar[str] = "order.proven"
    order: bytes
    leg: int


@dataclass(frozen=True, slots=True)
class OrderDeclined(Change):
    """A validator declined a match; ``reason`` is a ``LegEnd``.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderDeclined):
                print(event.validator, assay.LegEnd(event.reason).name)
    """

    KIND: ClassVar[str] = "order.declined"
    order: bytes
    leg: int
    validator: str
    reason: int


@dataclass(frozen=True, slots=True)
class LegFailed(Change):
    """A leg failed; ``reason`` is a ``LegEnd``. If it was running, it left its open round at ``left_at``.

    Example::

        for event in order.events():
            if isinstance(event, assay.LegFailed):
                print(event.validator, assay.LegEnd(event.reason).name)
    """

    KIND: ClassVar[str] = "order.failed"
    order: bytes
    leg: int
    validator: str
    reason: int
    left_at: int


@dataclass(frozen=True, slots=True)
class OrderSettled(Change):
    """A leg is done, and its validator gets the withheld coins. If the job stopped, ``reason`` is a ``LegEnd``;
    otherwise it is 0. The order closes when all its bonds have been returned.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderSettled):
                print(event.validator, event.leg)
    """

    KIND: ClassVar[str] = "order.settled"
    order: bytes
    leg: int
    validator: str
    reason: int


@dataclass(frozen=True, slots=True)
class PartReturned(Change):
    """The coins withheld from a leg's validator (``amount``) are part of the deposit again, because the leg failed.

    Some withheld coins may have paid for right shares that the validator had rejected. The validator replaces these
    coins: ``compensated`` (uassay) went to the consumer from the job bond and, if the bond was too small, from the
    stake. ``from_stake`` is the part of ``compensated`` that came from the stake. If bond and stake together were too
    small, ``compensated`` is less than the coins to be replaced.
    """

    KIND: ClassVar[str] = "part.returned"
    order: bytes
    leg: int
    amount: int
    compensated: int
    from_stake: int


@dataclass(frozen=True, slots=True)
class StatesLacked(Change):
    """The validator of a matched leg could not fetch the states from which the leg starts. A panel decides whether they
    can be fetched. Until then, the order is held.

    Example::

        for event in order.events():
            if isinstance(event, assay.StatesLacked):
                print(event.validator, event.leg)
    """

    KIND: ClassVar[str] = "states.lacked"
    order: bytes
    leg: int
    validator: str
    asked: int


@dataclass(frozen=True, slots=True)
class OrderRestarted(Change):
    """The order goes back, because the states of its last verified round are lost, and its deposit pays for the rounds
    that are trained again.

    The next leg starts with the round ``next_round``: from the states that the round before left in ``back_leg``, or
    from the payload if ``back_leg`` is 0. ``root`` is the root of the global state there. ``work_verified`` is the work
    (FLOPs) of the rounds before.

    Example::

        for event in order.events():
            if isinstance(event, assay.OrderRestarted):
                print(event.next_round)
    """

    KIND: ClassVar[str] = "order.restarted"
    order: bytes
    leg: int
    next_round: int
    back_leg: int
    root: bytes
    work_verified: int


@dataclass(frozen=True, slots=True)
class PartWaits(Change):
    """The coins withheld from the validator of a failed leg (``amount``) wait until ``until`` on the chain clock.

    Meanwhile the consumer can fetch the states of the leg's last verified round, and deny that they are served. An
    event with the same leg and a later ``until`` replaces the earlier one.
    """

    KIND: ClassVar[str] = "part.waits"
    order: bytes
    leg: int
    validator: str
    amount: int
    until: int


@dataclass(frozen=True, slots=True)
class PartEnded(Change):
    """The withheld coins of a failed leg were paid, burnt or returned; ``end`` is a ``PartEnd``."""

    KIND: ClassVar[str] = "part.ended"
    order: bytes
    leg: int
    validator: str
    amount: int
    end: int
