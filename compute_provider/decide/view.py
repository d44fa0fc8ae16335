"""The input of a provider's decision beside the record: its validator's picture, and the share in training."""

from dataclasses import dataclass

from domain.keys import ShareKey
from link.types import OpenTask, TrainTask


@dataclass(frozen=True, slots=True)
class ValidatorView:
    """The validator's tasks: shares to train and openings to send. ``began`` is the time of the poll (monotonic)."""

    train: tuple[TrainTask, ...]
    open: tuple[OpenTask, ...]
    began: float = 0.0

    def task(self, key: ShareKey) -> TrainTask | None:
        """Return the task of a share; None if the validator does not list it."""
        return next((task for task in self.train if task.key == key), None)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the validator and this machine.

    ``joined``: the validator admitted this process. ``picture`` is its answer to the last poll since then. ``training``
    is the share that a worker has, as long as its end is not in the record. ``idle`` is why the validator has nothing
    to train, ``warning`` its warning for this provider's operator.
    """

    joined: bool = False
    picture: ValidatorView | None = None
    training: ShareKey | None = None
    idle: str = ""
    warning: str = ""
