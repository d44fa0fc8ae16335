"""Traces of shares as the daemons of this machine recorded them; the chain has only hashes of a trace."""

from dataclasses import dataclass

from pol.rules.tiers.tier import Tier


@dataclass(frozen=True, slots=True)
class Reached:
    """A boundary of a trace, from 1 on: the job's steps before it, its state's root, and its metrics (loss first)."""

    index: int
    step: int
    root: bytes
    metrics: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a segment that the share's validator replayed: a ``ShareReason`` and the root that it computed.

    The number after the last segment stands for the update.
    """

    segment: int
    reason: int
    root: bytes


@dataclass(frozen=True, slots=True)
class ShareTrace:
    """The trace of a share in the records of a validator or provider of this machine."""

    # The boundaries from 1 on, without gaps.
    boundaries: tuple[Reached, ...] = ()
    # Replays of its validator; empty if only its provider's records are known here.
    replayed: tuple[Replayed, ...] = ()
    # Segments that the validator chose to replay in addition to the drawn ones.
    picks: tuple[int, ...] = ()
    verdict: int = 0
    # True if its provider handed it in; until then the trace ends at the last boundary that training has reached.
    claimed: bool = False

    def boundary(self, index: int) -> Reached | None:
        """Return a boundary; None if training has not reached it."""
        return self.boundaries[index - 1] if 0 < index <= len(self.boundaries) else None

    def replay(self, segment: int) -> Replayed | None:
        """Return the result of replaying a segment; None if its validator did not replay it."""
        return next((replay for replay in self.replayed if replay.segment == segment), None)


def first_difference(one: ShareTrace, other: ShareTrace, tier: Tier) -> int:
    """Return the first boundary at which two traces with the same start differ; 0 if they agree at all known
    boundaries.
    """
    for mine, theirs in zip(one.boundaries, other.boundaries, strict=False):
        if not tier.agree(mine.root, theirs.root):
            return mine.index
    return 0
