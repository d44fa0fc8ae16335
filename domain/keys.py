"""Keys that several components share: which round, which issue of a share."""

from collections.abc import Iterator
from dataclasses import dataclass

from domain.bounds import Count, Hash, Slot
from domain.readable import Readable


@dataclass(frozen=True, slots=True, order=True)
class RoundKey(Readable):
    """Names a round of a leg; unpacks into its parts, in the order that keys and events have.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVerified):
                print(event.round.leg, event.round.round)
    """

    order_id: Hash
    leg: Count
    round: Count

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the parts."""
        return iter((self.order_id, self.leg, self.round))

    def share(self, slot: int, issue: int) -> "ShareKey":
        """Return the key of one of the round's shares."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=slot, issue=issue)


@dataclass(frozen=True, slots=True, order=True)
class ShareKey(Readable):
    """Names one issue of a share; unpacks into its parts, in the order that keys and events have.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(event.share.round, event.share.slot, event.share.issue)
    """

    order_id: Hash
    leg: Count
    round: Count
    slot: Slot
    issue: Count

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the parts."""
        return iter((self.order_id, self.leg, self.round, self.slot, self.issue))

    @property
    def ref(self) -> "ShareRef":
        """What names the share inside its round."""
        return ShareRef(self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class ShareRef:
    """Names a share inside a leg's round."""

    slot: Slot
    issue: Count
