"""Events that the disputes component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.events import Change
from domain.keys import PanelKey, ShareKey
from domain.proof.records import AuditPlace, Finding


@dataclass(frozen=True, slots=True)
class ChallengeCommitted(Change):
    """Someone committed to a challenge of a closed round, and ``bond`` (uassay) is locked. It must be opened before
    ``opens_until`` on the chain clock. ``dispute`` is the key of the panel that will decide it.

    Example::

        for event in order.events():
            if isinstance(event, assay.ChallengeCommitted):
                print(event.challenger, event.bond)
    """

    KIND: ClassVar[str] = "challenge.committed"
    dispute: PanelKey
    challenger: str
    commitment: bytes
    bond: int
    least: int
    opens_until: int
    open_before: int


@dataclass(frozen=True, slots=True)
class ChallengeOpened(Change):
    """A challenge was opened. It names a place, and the challenger's answer for this place as ``claim``.

    If ``again`` is true, the round's own panel had decided the place before. If ``joins`` is not 0, it is the number of
    an earlier dispute that names the same place; the panel of that dispute decides the place.

    Example::

        for event in order.events():
            if isinstance(event, assay.ChallengeOpened):
                print(event.dispute.round, event.place, event.claim)
    """

    KIND: ClassVar[str] = "challenge.opened"
    dispute: PanelKey
    place: AuditPlace
    claim: Finding
    again: bool
    joins: int


@dataclass(frozen=True, slots=True)
class ChallengeJoined(Change):
    """The challenge with this ``number`` names the same place as an open dispute, whose panel decides both."""

    KIND: ClassVar[str] = "challenge.joined"
    dispute: PanelKey
    number: int


@dataclass(frozen=True, slots=True)
class ChallengesWaived(Change):
    """An account stated that it will not challenge the rounds of a leg before ``until``.

    All accounts that may challenge have stated it for the rounds before ``waived``.
    """

    KIND: ClassVar[str] = "challenge.waived"
    order: bytes
    leg: int
    account: str
    until: int
    waived: int


@dataclass(frozen=True, slots=True)
class DisputeEnded(Change):
    """A challenge ended in ``state`` (a ``DisputeState``). ``burnt`` (uassay) is the burnt part of its bond.

    Example::

        for event in order.events():
            if isinstance(event, assay.DisputeEnded):
                print(assay.DisputeState(event.state).name, event.burnt)
    """

    KIND: ClassVar[str] = "dispute.ended"
    dispute: PanelKey
    challenger: str
    state: int
    burnt: int


@dataclass(frozen=True, slots=True)
class ChallengerRewarded(Change):
    """A challenger got ``reward`` (uassay) from the bonds of the parties at fault, because its claim was right.

    Example::

        for event in order.events():
            if isinstance(event, assay.ChallengerRewarded):
                print(event.challenger, event.reward)
    """

    KIND: ClassVar[str] = "challenge.rewarded"
    dispute: PanelKey
    challenger: str
    reward: int


@dataclass(frozen=True, slots=True)
class StandOpened(Change):
    """A provider stands for its share, with a bond (uassay) that it loses if a panel finds the share to be wrong.

    ``added`` is the part of the bond that came from its bond account; the rest was locked for the share before. The
    other fields are the share's roots (``ShareRoots``). ``dispute`` is the key of the panel.

    Example::

        for event in order.events():
            if isinstance(event, assay.StandOpened):
                print(event.provider, event.share.slot)
    """

    KIND: ClassVar[str] = "share.stands"
    dispute: PanelKey
    share: ShareKey
    provider: str
    commitment: bytes
    bond: int
    added: int
    trace_root: bytes
    update_root: bytes
    local_out: bytes
    metrics: tuple[int, ...]
    segments: int
    steps: int
