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
    """The group of threads that carries out an action. An action waits only for other actions of its lane."""

    # The loop's own thread carries out these actions, because they wait for nothing.
    HERE = "here"
    POLL = "poll"
    LINK = "link"
    BOND = "bond"
    CHAIN = "chain"
    DISK = "disk"
    STAND = "stand"


class Base:
    """The base class of all actions.

    ``drawn`` is True if the action follows from the validator's picture. Once such an action has ended, it is started
    again only because of a picture that is newer than its end.
    """

    __slots__ = ()
    lane: ClassVar[Lane]
    drawn: ClassVar[bool] = False

    @property
    def subject(self) -> ShareKey | None:
        """The share that the action is about; None if the action is not about a single share."""
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
    """The action that registers the provider on the chain, deposits the bond that the owner wants to keep deposited,
    and joins the cluster.
    """

    lane: ClassVar = Lane.POLL


@dataclass(frozen=True, slots=True)
class Poll(Base):
    """The action that reports the progress of the shares to the validator and fetches its tasks."""

    lane: ClassVar = Lane.POLL


@dataclass(frozen=True, slots=True)
class Watch(Base):
    """The action that reads the states of the signed shares from the chain."""

    lane: ClassVar = Lane.CHAIN


@dataclass(frozen=True, slots=True)
class Glance(Base):
    """The action that checks the node and compares this machine's clock with the chain's, while no share is signed."""

    lane: ClassVar = Lane.CHAIN


@dataclass(frozen=True, slots=True)
class Status(Base):
    """The action that writes the status file."""

    lane: ClassVar = Lane.DISK


@dataclass(frozen=True, slots=True)
class CheckTask(OfTask):
    """The action that compares a task with the chain, and the size of its trace with the free disk space."""

    lane: ClassVar = Lane.BOND
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Renew(Base):
    """The action that checks the signature of a task whose validator has moved the deadline.

    If it fails, the share goes on with the deadline that it has, so the action has no subject.
    """

    lane: ClassVar = Lane.CHAIN
    drawn: ClassVar = True
    task: TrainTask

    @property
    def key(self) -> str:
        """The name of the action: only one action with this name runs at a time."""
        return f"{self.what} {name_of(self.task.key)}"


@dataclass(frozen=True, slots=True)
class Bond(OfTask):
    """The action that ensures that the free bond covers this share and all other uncommitted shares."""

    lane: ClassVar = Lane.BOND
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Fetch(OfTask):
    """The action that fetches the payload and the share's initial states."""

    lane: ClassVar = Lane.LINK
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Train(OfTask):
    """The action that gives a share to the worker, which continues from the share's last boundary on disk."""

    lane: ClassVar = Lane.HERE
    task: TrainTask


@dataclass(frozen=True, slots=True)
class Submit(OfShare):
    """The action that signs the commitment to a share and submits it to the validator."""

    lane: ClassVar = Lane.LINK
    drawn: ClassVar = True
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Upload(OfShare):
    """The action that encrypts the results of a share and uploads them. It does not wait for the chain."""

    lane: ClassVar = Lane.LINK
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Deliver(OfShare):
    """The action that gets the receipt for the results of a share whose commitment is on the chain."""

    lane: ClassVar = Lane.LINK
    drawn: ClassVar = True
    share: ShareKey


@dataclass(frozen=True, slots=True)
class ShowKey(OfShare):
    """The action that shows the validator the key of a delivery for which there is a receipt."""

    lane: ClassVar = Lane.LINK
    share: ShareKey


@dataclass(frozen=True, slots=True)
class ShowOnChain(OfShare):
    """The action that shows the key of a delivery to the chain, because the validator does not accept it."""

    lane: ClassVar = Lane.CHAIN
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Include(OfShare):
    """The action that puts the commitment to a share on chain, because the validator does not commit it."""

    lane: ClassVar = Lane.CHAIN
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Ask(OfShare):
    """The action that asks for witnesses of a delivery on chain, because the validator signs no receipt."""

    lane: ClassVar = Lane.CHAIN
    share: ShareKey


@dataclass(frozen=True, slots=True)
class SendToWitnesses(OfShare):
    """The action that sends a share's encrypted delivery to the witnesses that have not signed yet."""

    lane: ClassVar = Lane.STAND
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Open(OfShare):
    """The action that uploads the share's states at the boundaries ``indices``."""

    lane: ClassVar = Lane.LINK
    drawn: ClassVar = True
    share: ShareKey
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetShare(OfShare):
    """The action that ends the training of a share, if it is being trained, and deletes the share's files."""

    lane: ClassVar = Lane.HERE
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Stand(OfShare):
    """The action that stands on the chain for a share, because its validator rejected it or made it void."""

    lane: ClassVar = Lane.BOND
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Recheck(OfShare):
    """The action that recomputes the segments of a share that a panel found wrong."""

    lane: ClassVar = Lane.STAND
    share: ShareKey


@dataclass(frozen=True, slots=True)
class Appeal(OfShare):
    """The action that appeals a ruling against a share that is right, if the bond pays."""

    lane: ClassVar = Lane.BOND
    share: ShareKey


@dataclass(frozen=True, slots=True)
class ShowPlaces(OfShare):
    """The action that sends the places of a share to the seats of the panel that recomputes them."""

    lane: ClassVar = Lane.STAND
    share: ShareKey
    dispute: int


Action = (
    Join
    | Poll
    | Watch
    | Glance
    | Status
    | CheckTask
    | Renew
    | Bond
    | Fetch
    | Train
    | Submit
    | Upload
    | Deliver
    | ShowKey
    | ShowOnChain
    | Include
    | Ask
    | SendToWitnesses
    | Open
    | Stand
    | Recheck
    | Appeal
    | ShowPlaces
    | ForgetShare
)
