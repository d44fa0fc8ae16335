"""What a provider has to do as long as its state asks for it: values, without a clock.

A duty may be done twice without harm. Who does it sees to it that each is done once at a time, waits a while after a
failure, and does not follow an outdated look (:mod:`host.lanes`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from compute_provider.decide.shares import Stage, State
from domain.keys import ShareKey
from link.types import TrainTask


@dataclass(frozen=True, slots=True)
class Join:
    """Be on the chain and in the validator's cluster, with the bond that the owner wants to keep there."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Tell the validator how the shares are doing, and hear what it wants."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Read from the chain what became of the shares that are signed."""


@dataclass(frozen=True, slots=True)
class Status:
    """Write down for people how all is."""


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Compare the task with the chain, and its trace with the room on the disk."""

    task: TrainTask

    @property
    def key(self) -> ShareKey:
        """The share."""
        return self.task.key


@dataclass(frozen=True, slots=True)
class Bond:
    """Have enough free bond for this share beside those that are not committed yet."""

    task: TrainTask

    @property
    def key(self) -> ShareKey:
        """The share."""
        return self.task.key


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch payload and opening states."""

    task: TrainTask

    @property
    def key(self) -> ShareKey:
        """The share."""
        return self.task.key


@dataclass(frozen=True, slots=True)
class Submit:
    """Sign the commitment and submit it; asked for by the validator's picture."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Deliver:
    """Upload and show what the commitment on chain hides; asked for by the validator's picture."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Open:
    """Upload the states at these boundaries; asked for by the validator's picture."""

    key: ShareKey
    indices: tuple[int, ...]


OfShare = CheckTask | Bond | Fetch | Submit | Deliver | Open
Duty = Join | Poll | Watch | Status | OfShare


def duties(state: State) -> Iterator[Duty]:
    """Yield what the state asks for."""
    yield Poll() if state.joined else Join()
    if any(work.signed for work in state.works):
        yield Watch()
    yield Status()
    yield from of_shares(state)


def of_shares(state: State) -> Iterator[OfShare]:
    """Yield what the shares ask for, what has to be there first before the rest."""
    for work in state.by_deadline():
        match work.stage:
            case Stage.CHECKING:
                yield CheckTask(work.task)
            case Stage.BONDING:
                yield Bond(work.task)
            case Stage.FETCHING:
                yield Fetch(work.task)
            # What is listed after it was handed in has not come, or is lost.
            case Stage.TRAINED | Stage.SUBMITTED if work.listed:
                yield Submit(work.key)
            case Stage.COMMITTED | Stage.DELIVERED if work.listed:
                yield Deliver(work.key)
    for opening in state.openings:
        asked = state.get(opening.key)
        if asked is not None and asked.signed:
            yield Open(opening.key, opening.indices)
