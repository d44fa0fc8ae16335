"""The places in a job: its rounds, slots, segments and steps, and their numbers.

This file imports no numerical library, because leaders of groups in daemons use it.
"""

from typing import Protocol

from pol.errors import RangeError
from pol.work.records import RoundSlot


class Divided(Protocol):
    """A job with its division into rounds, slots, segments and steps: its document, or a leader's record of it."""

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        ...

    @property
    def slots(self) -> int:
        """Number of slots of a round."""
        ...

    @property
    def share_segments(self) -> int:
        """Number of segments of a share."""
        ...

    @property
    def round_steps(self) -> int:
        """Number of inner steps of a round."""
        ...

    @property
    def segment_steps(self) -> int:
        """Number of inner steps of a segment."""
        ...


def check_part(job: Divided, part: RoundSlot) -> None:
    """Raise RangeError if the job does not have this round or slot."""
    if not 0 <= part.round < job.rounds:
        raise RangeError(f"round {part.round} is outside the job's {job.rounds} rounds")
    if not 0 <= part.slot < job.slots:
        raise RangeError(f"slot {part.slot} is outside the job's {job.slots} slots")


def check_segment(job: Divided, part: RoundSlot, index: int) -> None:
    """Raise RangeError if the job does not have this round or slot, or its shares do not have this segment."""
    check_part(job, part)
    if not 0 <= index < job.share_segments:
        raise RangeError(f"segment {index} is outside a share of {job.share_segments}")


def boundary_step(job: Divided, round: int, index: int) -> int:
    """Return the number of the job's first inner step after boundary ``index`` of the shares of a round."""
    return round * job.round_steps + index * job.segment_steps
