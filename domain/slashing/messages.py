"""The message that the slashing component handles: that of ``cosmos.slashing.v1beta1``."""

from dataclasses import dataclass
from typing import ClassVar

from domain.bounds import OperatorAddress
from domain.messages import Message


@dataclass(frozen=True, slots=True)
class MsgUnjail(Message):
    """Free a validator from the jail in which it is for its absence. It enters the validator set again if it has enough
    stake.
    """

    URL: ClassVar[str] = "/cosmos.slashing.v1beta1.MsgUnjail"
    SIGNER: ClassVar[str] = "validator_addr"
    GAS_EXTRA: ClassVar[int] = 1
    validator_addr: OperatorAddress
