"""The keys of rounds and shares, which several components use."""

from collections.abc import Iterator
from dataclasses import dataclass

from domain.bounds import Count, Hash, Slot
from domain.readable import Readable


@dataclass(frozen=True, slots=True, order=True)
class RoundKey(Readable):
    """The key of a round of a leg. Iteration gives its parts in the order that store keys and events have.

    Example::

        for event in order.events():
            if isinstance(event, assay.RoundVerified):
                print(event.round.leg, event.round.round)
    """

    order_id: Hash
    leg: Count
    round: Count

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the order's id, the leg and the round."""
        return iter((self.order_id, self.leg, self.round))

    def share(self, slot: int, issue: int) -> "ShareKey":
        """Return the key of one of the round's shares."""
        return ShareKey(order_id=self.order_id, leg=self.leg, round=self.round, slot=slot, issue=issue)

    def panel(self, dispute: int = 0) -> "PanelKey":
        """Return the key of the panel that audits the round or, if ``dispute`` is not 0, of the panel that decides this
        dispute about the round.
        """
        return PanelKey(order_id=self.order_id, leg=self.leg, round=self.round, dispute=dispute)


@dataclass(frozen=True, slots=True, order=True)
class PanelKey(Readable):
    """The key of a panel: its round, and the number of the dispute that it decides.

    The panel that audits the round itself has the number 0. Iteration gives the parts in the order that store keys and
    events have.

    Example::

        for event in order.events():
            if isinstance(event, assay.PlaceRuled):
                print(event.panel.round, event.panel.dispute, event.place)
    """

    order_id: Hash
    leg: Count
    round: Count
    dispute: Count

    def __iter__(self) -> Iterator[bytes | int]:
        """Yield the order's id, the leg, the round and the number of the dispute."""
        return iter((self.order_id, self.leg, self.round, self.dispute))

    @property
    def round_key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)


@dataclass(frozen=True, slots=True, order=True)
class ShareKey(Readable):
    """The key of one issue of a share. Iteration gives its parts in the order that store keys and events have.

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
        """Yield the order's id, the leg, the round, the slot and the issue."""
        return iter((self.order_id, self.leg, self.round, self.slot, self.issue))

    @property
    def round_key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def ref(self) -> "ShareRef":
        """The slot and issue, which identify the share inside its round."""
        return ShareRef(self.slot, self.issue)


@dataclass(frozen=True, slots=True)
class ShareRef:
    """The key of a share inside its round: slot and issue."""

    slot: Slot
    issue: Count
