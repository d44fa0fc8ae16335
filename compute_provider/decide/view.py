"""What a provider sees when it decides: its validator's picture, and what is under way here."""

from dataclasses import dataclass

from domain.keys import ShareKey
from link.types import OpenTask, TrainTask


@dataclass(frozen=True, slots=True)
class ValidatorView:
    """What the validator wants, of the moment (monotonic seconds) when it was asked."""

    train: tuple[TrainTask, ...]
    open: tuple[OpenTask, ...]
    began: float = 0.0

    def task(self, key: ShareKey) -> TrainTask | None:
        """Return the task of a share, if the validator lists it."""
        return next((task for task in self.train if task.key == key), None)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the validator and this machine.

    ``joined``: the validator has taken this provider; ``picture`` is the last one since then. ``training`` is the share
    that a worker of this process was given and whose end is not in the record yet. ``idle`` is why the validator has
    nothing to train, ``warning`` what it wants this provider's operator to know.
    """

    joined: bool = False
    picture: ValidatorView | None = None
    training: ShareKey | None = None
    idle: str = ""
    warning: str = ""
