"""Tables of slashing: signing infos with the missed blocks, evidence, and the clock at past heights."""

from dataclasses import dataclass

from chain.state_machine.kinds import Due
from chain.state_machine.tables import BytesTable, Numbers, Table
from domain.slashing.records import Evidence, SigningInfo


@dataclass(frozen=True, slots=True)
class ClockLag:
    """The time by which the chain clock is behind header times, from a height on."""

    height: int
    lag_ns: int
    until: int = 0  # chain clock (seconds) at which the next lag began; 0 for the lag of the last block


# Key: consensus address.
SIGNING_INFOS = Table(0xB0, "signing info", SigningInfo, lambda r: (r.cons_address,))
# Key: consensus address. Value: number of blocks that the validator missed in its window. Absent: none.
MISSED_COUNTS = Numbers(0xB1, "number of missed blocks")
# Key: consensus address, number of the chunk. Value: one bit for each of CHUNK blocks of the window. Absent: no bit.
MISSED_BITS = BytesTable(0xB2, "missed blocks")
# Key: consensus address. A validator is tombstoned once.
EVIDENCE = Table(0xB3, "evidence", Evidence, lambda r: (r.cons_address,))
CLOCK_LAG = Table(0xB4, "lag of the clock", ClockLag, lambda _: (), remembered=True)
PAST_LAGS = Table(0xB6, "past lag of the clock", ClockLag, lambda r: (r.height,))
# No key. Value: consensus address of the proposer of the last block, if it did not make the reveal that it owed.
UNREVEALED = BytesTable(0xB5, "proposer without a reveal")

SLASH_DUE = Due("slash", 62, lane=0)
