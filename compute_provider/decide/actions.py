"""What :mod:`compute_provider.decide` may ask for. Every action has a key and a lane, and may be carried out twice."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from compute_provider.decide.records import name_of
from domain.keys import ShareKey
from link.types import TrainTask


class Lane(StrEnum):
    """Where an action waits for others, so that it holds up no action of another lane."""

    # Done at once: it waits for nothing.
    HERE = "here"
    POLL = "poll"
    LINK = "link"
    BOND = "bond"
    CHAIN = "chain"
    DISK = "disk"


class Base:
    """An action.

    ``drawn``: the validator's picture asks for it, so it is not started again because of a picture that is older than
    its end.
    """

    __slots__ = ()
    lane: ClassVar[Lane]
    drawn: ClassVar[bool] = False

    @property
    def subject(self) -> ShareKey | None:
        """The share that the action is about."""
        return None

    @property
    def what(self) -> str:
        """The kind of action in one word."""
        return type(self).__name__.lower()

    @property
    def key(self) -> str:
        """The name under which the action is under way once at a time."""
        return self.what if self.subject is None else f"{self.what} {name_of(self.subject)}"


class OfTask(Base):
    """An action about the share of a task."""

    __slots__ = ()
    task: TrainTask

    @property
    def subject(self) -> ShareKey:
        """The share of the task."""
        return self.task.key


class OfShare(Base):
    """An action about a share."""

    __slots__ = ()
    share: ShareKey

    @property
    def subject(self) -> ShareKey:
        """The share."""
        return self.share


@dataclass(frozen=True, slots=True)
class Join(Base):
    """Be on the chain and in the validator's cluster, with the bond that the owner wants to keep there."""

    lane: ClassVar = Lane.POLL


@dataclass(frozen=True, slots=True)
class Poll(Base):
    """Report to the validator how the shares are doing, and hear what it wants."""

    lane: ClassVar = Lane.POLL


@dataclass(frozen=True, slots=True)
class Watch(Base):
    """Read from the chain what became of the shares that are signed."""

    lane: ClassVar = Lane.CHAIN


@dataclass(frozen=True, slots=True)
class Glance(Base):
    """See that the node answers and that this machine's clock is the chain's, while no share is on the chain."""

    lane: ClassVar = Lane.CHAIN


@dataclass(frozen=True, slots=True)
class Status(Base):
    """Write the status file."""

    lane: ClassVar = Lane.DISK


@dataclass(frozen=True, slots=True)
class CheckTask(OfTask):
    """Compare the task with the chain, and its trace with the room on the disk."""

    lane: ClassVar = Lane.BOND
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Bond(OfTask):
    """Have enough free bond for this share beside those that are not committed yet."""

    lane: ClassVar = Lane.BOND
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Fetch(OfTask):
    """Fetch payload and opening states."""

    lane: ClassVar = Lane.LINK
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Train(OfTask):
    """Give a share to the worker, which goes on from the last boundary on disk."""

    lane: ClassVar = Lane.HERE
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Submit(OfShare):
    """Sign the commitment and submit it."""

    lane: ClassVar = Lane.LINK
    drawn: ClassVar = True
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Deliver(OfShare):
    """Upload and show what the commitment on chain hides."""

    lane: ClassVar = Lane.LINK
    drawn: ClassVar = True
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Open(OfShare):
    """Upload the states at these boundaries."""

    lane: ClassVar = Lane.LINK
    drawn: ClassVar = True
    share: ShareKey
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetShare(OfShare):
    """Stop whatever is under way for a share, and delete all that is on disk of it."""

    lane: ClassVar = Lane.HERE
    share: ShareKey


Action = (
    Join | Poll | Watch | Glance | Status | CheckTask | Bond | Fetch | Train | Submit | Deliver | Open | ForgetShare
)
