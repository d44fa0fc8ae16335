"""Messages that the legs component handles."""

from dataclasses import dataclass
from typing import ClassVar

from domain.bounds import Address, Count, Hash
from domain.messages import LaneHalf, Message


@dataclass(frozen=True, slots=True)
class MsgAcceptOrder(Message):
    """Accept a matched order. By this message, the validator confirms three things: it has the payload and the data,
    the job loads, and the job's work equals the work in the order.
    """

    URL: ClassVar[str] = "/assay.market.v1.MsgAcceptOrder"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    order_id: Hash
    leg: Count


@dataclass(frozen=True, slots=True)
class MsgDeclineOrder(Message):
    """Decline a matched order. ``reason`` is a ``LegEnd``: 1 to 5, 10,010, 10,017 or 10,020."""

    URL: ClassVar[str] = "/assay.market.v1.MsgDeclineOrder"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    GAS_EXTRA: ClassVar[int] = 14  # the handler reads the order's legs and the stakes of all validators
    validator: Address
    order_id: Hash
    leg: Count
    reason: Count


@dataclass(frozen=True, slots=True)
class MsgStopOrder(Message):
    """Give up a running order. The leg of the validator fails."""

    URL: ClassVar[str] = "/assay.market.v1.MsgStopOrder"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    order_id: Hash
    leg: Count


@dataclass(frozen=True, slots=True)
class MsgAckState(Message):
    """Confirm or deny that the states of the last verified round of a failed leg were served.

    If the consumer ``received`` them, the part that was withheld from the leg's validator is paid at once. If not, the
    part is burnt.
    """

    URL: ClassVar[str] = "/assay.market.v1.MsgAckState"
    SIGNER: ClassVar[str] = "consumer"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    consumer: Address
    order_id: Hash
    leg: Count
    received: bool
