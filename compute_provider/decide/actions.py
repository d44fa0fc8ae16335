"""The actions that :mod:`compute_provider.decide` may ask for.

Every action has a key and a lane, and it is safe to carry it out twice.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from compute_provider.decide.records import name_of
from domain.keys import ShareKey
from link.types import TrainTask


class Lane(StrEnum):
    """The group of threads that carries out an action: an action waits only for others of its lane."""

    # On the loop's own thread: these actions wait for nothing.
    HERE = "here"
    POLL = "poll"
    LINK = "link"
    BOND = "bond"
    CHAIN = "chain"
    DISK = "disk"


class Base:
    """An action.

    ``drawn``: the action follows from the validator's picture. A picture that was made before the action ended does
    not start it again.
    """

    __slots__ = ()
    lane: ClassVar[Lane]
    drawn: ClassVar[bool] = False

    @property
    def subject(self) -> ShareKey | None:
        """The share that the action is about; None if it is about no single share."""
        return None

    @property
    def what(self) -> str:
        """The kind of the action, in one word."""
        return type(self).__name__.lower()

    @property
    def key(self) -> str:
        """The name of the action: only one action with this name runs at a time."""
        return self.what if self.subject is None else f"{self.what} {name_of(self.subject)}"


class OfTask(Base):
    """An action about the share of a task."""

    __slots__ = ()
    task: TrainTask

    @property
    def subject(self) -> ShareKey:
        """The share that the task is about."""
        return self.task.key


class OfShare(Base):
    """An action about a share."""

    __slots__ = ()
    share: ShareKey

    @property
    def subject(self) -> ShareKey:
        """The share that the action is about."""
        return self.share


@dataclass(frozen=True, slots=True)
class Join(Base):
    """Register on the chain, deposit the bond that the owner wants to keep, and join the validator's cluster."""

    lane: ClassVar = Lane.POLL


@dataclass(frozen=True, slots=True)
class Poll(Base):
    """Report the progress of the shares to the validator, and fetch its tasks."""

    lane: ClassVar = Lane.POLL


@dataclass(frozen=True, slots=True)
class Watch(Base):
    """Read from the chain what happened to the signed shares."""

    lane: ClassVar = Lane.CHAIN


@dataclass(frozen=True, slots=True)
class Glance(Base):
    """Check that the node answers and that this machine's clock agrees with the chain's, while no share is signed."""

    lane: ClassVar = Lane.CHAIN


@dataclass(frozen=True, slots=True)
class Status(Base):
    """Write the status file."""

    lane: ClassVar = Lane.DISK


@dataclass(frozen=True, slots=True)
class CheckTask(OfTask):
    """Compare the task with the chain, and the size of its trace with the free disk space."""

    lane: ClassVar = Lane.BOND
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Bond(OfTask):
    """Make sure that the free bond covers this share and the other shares that are not committed yet."""

    lane: ClassVar = Lane.BOND
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Fetch(OfTask):
    """Fetch the payload and the share's initial states."""

    lane: ClassVar = Lane.LINK
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Train(OfTask):
    """Give a share to the worker, which continues from the last boundary on disk."""

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
    """Upload the results that the commitment on chain hides."""

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
    """Stop training a share if it is being trained, and delete its files."""

    lane: ClassVar = Lane.HERE
    share: ShareKey


Action = (
    Join | Poll | Watch | Glance | Status | CheckTask | Bond | Fetch | Train | Submit | Deliver | Open | ForgetShare
)
