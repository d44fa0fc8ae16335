"""Messages that the legs component handles."""

from dataclasses import dataclass
from typing import ClassVar

from domain.bounds import Address, Count, Hash
from domain.messages import Message


@dataclass(frozen=True, slots=True)
class MsgAcceptOrder(Message):
    """Accept a matched order: payload and data are held, the job loads, the work agrees."""

    URL: ClassVar[str] = "/assay.market.v1.MsgAcceptOrder"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    order_id: Hash
    leg: Count


@dataclass(frozen=True, slots=True)
class MsgDeclineOrder(Message):
    """Decline a matched order with an ``LegEnd`` reason (1, 2, 3 or 10,010)."""

    URL: ClassVar[str] = "/assay.market.v1.MsgDeclineOrder"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    order_id: Hash
    leg: Count
    reason: Count


@dataclass(frozen=True, slots=True)
class MsgStopOrder(Message):
    """Give up a running order: the leg fails."""

    URL: ClassVar[str] = "/assay.market.v1.MsgStopOrder"
    SIGNER: ClassVar[str] = "validator"
    validator: Address
    order_id: Hash
    leg: Count
