"""What is known of the trace of a share beside the hashes that the chain has of it."""

from dataclasses import dataclass

from pol.rules.tiers.tier import Tier


@dataclass(frozen=True, slots=True)
class Reached:
    """A boundary 1..n of a trace: after how many of the job's steps, its root, its metrics (the loss first)."""

    index: int
    step: int
    root: bytes
    metrics: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A segment that the share's validator trained again (n: the update): a ``ShareReason``, and the root it got."""

    segment: int
    reason: int
    root: bytes


@dataclass(frozen=True, slots=True)
class ShareTrace:
    """A share as a validator or a provider of this machine has it."""

    # Without gaps from boundary 1 on.
    boundaries: tuple[Reached, ...] = ()
    # What its validator did with it; empty where only its provider is known here.
    replayed: tuple[Replayed, ...] = ()
    # The validator's own further segments.
    picks: tuple[int, ...] = ()
    verdict: int = 0
    # Whether its provider handed it in: until then it is what was trained so far.
    claimed: bool = False

    def boundary(self, index: int) -> Reached | None:
        """Return a boundary, if it was reached."""
        found = self.boundaries[index - 1 : index] if index > 0 else ()
        return found[0] if found else None

    def replay(self, segment: int) -> Replayed | None:
        """Return what training a segment again gave."""
        return next((found for found in self.replayed if found.segment == segment), None)


def first_difference(one: ShareTrace, other: ShareTrace, tier: Tier) -> int:
    """Return the first boundary at which two traces that begin alike differ; 0 where they do not, as far as known."""
    for mine, theirs in zip(one.boundaries, other.boundaries, strict=False):
        if not tier.agree(mine.root, theirs.root):
            return mine.index
    return 0
