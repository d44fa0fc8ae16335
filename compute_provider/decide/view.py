"""The input of a provider's decisions other than the record: the validator's picture, and the share in training."""

from dataclasses import dataclass

from domain.keys import ShareKey
from link.types import OpenTask, TrainTask


@dataclass(frozen=True, slots=True)
class ValidatorView:
    """The validator's picture: shares to train and openings to send.

    ``began`` is the time (monotonic seconds) at which the poll began.
    """

    train: tuple[TrainTask, ...]
    open: tuple[OpenTask, ...]
    began: float = 0.0

    def task(self, key: ShareKey) -> TrainTask | None:
        """Return the task of a share; None if the validator does not list it."""
        return next((task for task in self.train if task.key == key), None)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the validator and this machine.

    ``joined`` is True if the validator admitted this process. ``picture`` is the validator's answer to the last poll
    since the admission. ``training`` are the shares that workers train. A share stays there until the record shows that
    its training has ended. ``slots`` is the number of shares that may be trained at once. ``idle`` is the reason why
    the validator has no share for this provider. ``warning`` is the validator's warning for the provider's operator.
    """

    joined: bool = False
    picture: ValidatorView | None = None
    training: frozenset[ShareKey] = frozenset()
    slots: int = 1
    idle: str = ""
    warning: str = ""
