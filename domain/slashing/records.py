"""Records that the slashing component keeps."""

from dataclasses import dataclass
from enum import IntEnum

from domain.block import MisbehaviourKind
from domain.bounds import Address, ConsensusAddress, Count, Number

FOREVER = 253_402_300_799
"""The end of the jail of a validator that signed twice: the last second of the year 9999, which no clock reaches."""


class Fault(IntEnum):
    """A fault for which a validator is slashed and jailed."""

    DOUBLE_SIGN = 1
    DOWNTIME = 2


@dataclass(frozen=True, slots=True)
class SigningInfo:
    """The record of a validator's signatures. A validator has one from the first time that it is bonded."""

    cons_address: ConsensusAddress
    operator: Address
    start_height: Number  # first block that it has to sign; 0 while it is jailed or outside the validator set
    window: Count = 0  # number of blocks over which absences are counted since then; 0 likewise
    jailed_until: Number = 0  # end of its last jail (chain clock); 0 if it was never jailed
    tombstoned: bool = False  # it signed twice, and can never be unjailed


@dataclass(frozen=True, slots=True)
class Evidence:
    """The proof for which a validator was tombstoned. The consensus has checked it."""

    cons_address: ConsensusAddress
    operator: Address
    kind: MisbehaviourKind
    height: Number
    time_ns: Number  # header time of that height, nanoseconds since the epoch
    power: Number  # power that the validator had there
