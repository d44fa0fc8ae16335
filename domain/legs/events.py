"""Events that the legs component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change


@dataclass(frozen=True, slots=True)
class OrderMatched(Change):
    """The auction found a bid for an order, which serves rounds and slots of it.

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
    opening_root: bytes
    matched_at: int
    accept_deadline: int


@dataclass(frozen=True, slots=True)
class SlotOpened(Change):
    """A slot of a leg starts from another local state than that of the order's terms."""

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
    """The open round of a leg has to be closed by ``deadline`` on the chain clock."""

    KIND: ClassVar[str] = "order.progress"
    order: bytes
    leg: int
    deadline: int


@dataclass(frozen=True, slots=True)
class LegDeadlinesMoved(Change):
    """The deadlines of a live leg have moved by the time for which its order was held."""

    KIND: ClassVar[str] = "leg.deadlines"
    order: bytes
    leg: int
    accept_deadline: int
    progress_deadline: int


@dataclass(frozen=True, slots=True)
class OrderProven(Change):
    """The last round is closed, or one in which the job stopped: what remains is that windows pass.

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
    """A validator declined a match, with an ``LegEnd``.

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
    """A leg failed, with an ``LegEnd``.

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


@dataclass(frozen=True, slots=True)
class OrderSettled(Change):
    """A leg is done, with an ``LegEnd`` where the job stopped: its validator gets what was withheld.

    The order closes when its bonds have returned.

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
    """A leg has failed: what was withheld from its validator is the deposit's again.

    What right shares took of it was made good to the consumer, as far as job bond and stake went, ``from_stake`` of it.
    """

    KIND: ClassVar[str] = "part.returned"
    order: bytes
    leg: int
    amount: int
    made_good: int
    from_stake: int
