"""The machines that a plan is made for. This file imports no numerical library: leaders of groups may hold keys."""

from dataclasses import dataclass
from typing import Final

from domain.readable import Readable

SLOT_SPEED: Final = 1_000_000_000
"""Default speed of a slot (FLOP/s), which is about the speed of one or two cores."""
LINK_SPEED: Final = 125_000_000
"""Default bandwidth of a machine (bytes per second): one gigabit per second."""


@dataclass(frozen=True, slots=True)
class Machine(Readable):
    """One machine of an owner: its measured speed (FLOP/s), memory (bytes) and bandwidth (bytes per second)."""

    speed: int
    memory: int
    bandwidth: int
