"""What a provider remembers of its shares; what is only under way is not in the record."""

from dataclasses import dataclass, replace
from enum import IntEnum

from domain.keys import ShareKey
from link.types import NAN_BITS, Doing, Phase, TrainTask


class Stage(IntEnum):
    """Where a share stands."""

    # The task's claims against the chain.
    CHECKING = 1
    # Its bond is seen to: a share without one is not committed.
    BONDING = 2
    # Payload and opening states come.
    FETCHING = 3
    # It waits for the worker.
    READY = 4
    TRAINING = 5
    # Trace and update are on disk.
    TRAINED = 6
    # The validator has the commitment.
    SUBMITTED = 7
    # The chain has it.
    COMMITTED = 8
    # The validator has everything.
    DELIVERED = 9
    # The validator did not take it; the trace stays all the same.
    REFUSED = 10
    FAILED = 11
    # The chain says that its states cannot be asked for any more.
    OVER = 12


_PHASES = {
    Stage.CHECKING: Phase.FETCHING,
    Stage.BONDING: Phase.FETCHING,
    Stage.FETCHING: Phase.FETCHING,
    Stage.READY: Phase.FETCHING,
    Stage.TRAINING: Phase.TRAINING,
    Stage.TRAINED: Phase.UPLOADING,
    Stage.SUBMITTED: Phase.UPLOADING,
    Stage.COMMITTED: Phase.UPLOADING,
    Stage.DELIVERED: Phase.SUBMITTED,
    Stage.REFUSED: Phase.FAILED,
    Stage.FAILED: Phase.FAILED,
    Stage.OVER: Phase.SUBMITTED,
}
_SIGNED = (
    Stage.TRAINED,
    Stage.SUBMITTED,
    Stage.COMMITTED,
    Stage.DELIVERED,
    Stage.REFUSED,
    Stage.OVER,
)


@dataclass(frozen=True, slots=True)
class ShareWork:
    """A share and how far it is.

    ``loss`` is FP32 bits, ``text`` why it failed or was refused, or where the job stops; the roots are there once it is
    trained, unless it stops.
    """

    task: TrainTask
    stage: Stage
    step: int = 0
    steps: int = 0
    loss: int = NAN_BITS
    tries: int = 0
    text: str = ""
    update_root: bytes = b""
    local_out_root: bytes = b""

    @property
    def key(self) -> ShareKey:
        """The share."""
        return self.task.key

    @property
    def signed(self) -> bool:
        """Whether a signature may be out in the world: from then on the chain says when it is over."""
        return self.stage in _SIGNED

    def doing(self) -> Doing:
        """Return what the validator is told of it."""
        return Doing(
            key=self.key,
            phase=_PHASES[self.stage],
            step=self.step,
            steps=self.steps,
            loss=self.loss,
        )


@dataclass(frozen=True, slots=True)
class Shares:
    """All shares that this provider knows of, in the order of their keys."""

    works: tuple[ShareWork, ...] = ()

    def get(self, key: ShareKey) -> ShareWork | None:
        """Return the work on a share."""
        return next((work for work in self.works if work.key == key), None)

    def put(self, work: ShareWork) -> "Shares":
        """Return the record with this work added or replaced."""
        others = (other for other in self.works if other.key != work.key)
        return replace(self, works=tuple(sorted((*others, work), key=lambda each: each.key)))

    def drop(self, key: ShareKey) -> "Shares":
        """Return the record without this share."""
        return replace(self, works=tuple(work for work in self.works if work.key != key))


def name_of(key: ShareKey) -> str:
    """Return a name of a share for files and actions."""
    return f"{key.order_id.hex()}-{key.leg}-{key.round}-{key.slot}-{key.issue}"
