"""A provider's record of its shares. Actions that are under way are not in the record."""

from dataclasses import dataclass, replace
from enum import IntEnum

from domain.keys import ShareKey
from domain.limits import SAMPLES_MAX
from link.types import NAN_BITS, DeliveryReceipt, Doing, Phase, TrainTask


class Stage(IntEnum):
    """The stages of a share, in the order in which the share goes through them."""

    # The task is being compared with the chain.
    CHECKING = 1
    # The bond is being deposited: without one, the share cannot be committed.
    BONDING = 2
    # The payload and the initial states are being fetched.
    FETCHING = 3
    # The share waits for the worker.
    READY = 4
    TRAINING = 5
    # The trace and the update are on disk.
    TRAINED = 6
    # The validator has the commitment.
    SUBMITTED = 7
    # The commitment is on the chain.
    COMMITTED = 8
    # The validator has all results.
    DELIVERED = 9
    # The validator refused the share. Its trace stays on disk, because someone may hold its signature.
    REFUSED = 10
    FAILED = 11
    # The chain shows that no one can ask for the share's states any longer.
    OVER = 12


MAY_STAND = -1
GAVE_UP = -2

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
class Contest:
    """A ruling of a panel against segments of a share, which the provider may appeal.

    ``dispute`` is the number of the panel's dispute, 0 for the panel of the round. ``is_checked`` is True once this
    machine has recomputed the segments, and ``is_right`` if they have the same results again, as long as an appeal may
    succeed. If it is not ``is_liable``, the validator pays for the ruling, and the provider loses only its credentials.
    """

    dispute: int
    segments: tuple[int, ...]
    is_checked: bool = False
    is_right: bool = False
    is_liable: bool = True


@dataclass(frozen=True, slots=True)
class ShareWork:
    """A share and its progress.

    ``loss`` is the last loss, as FP32 bits. ``text`` is the reason of a failure or a refusal, or the place where the
    job stopped itself. The roots are set once the share is trained, unless the job stopped itself. ``stop_step`` is the
    number of the step at which the job stopped itself, and -1 if it did not stop in a step. ``uploaded`` is True once
    the validator has the ciphertext, and ``receipt`` is the validator's last receipt for it. ``to_show`` is True while
    the key has to be shown to the chain. ``stand`` is the number of the dispute in which the provider stands for the
    share; ``MAY_STAND`` while it has to, and ``GAVE_UP`` if the chain refused that. ``to_include`` is True while the
    provider has to put its commitment on chain itself. ``contest`` is a ruling against the share that can be appealed.
    ``to_ask`` is True while the provider has to ask for witnesses of its delivery, and ``is_witnessed`` while witnesses
    wait for it. ``hardware`` is True if the tier of the leg on the chain has hardware arithmetic.
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
    stop_step: int = -1
    uploaded: bool = False
    receipt: DeliveryReceipt | None = None
    to_show: bool = False
    stand: int = 0
    to_include: bool = False
    contest: Contest | None = None
    to_ask: bool = False
    is_witnessed: bool = False
    hardware: bool = False

    @property
    def key(self) -> ShareKey:
        """The key of the share."""
        return self.task.key

    def steps_since(self, step: int) -> int:
        """Return the number of steps from ``step`` to the step at which the job stopped; 0 if the job did not stop
        after ``step``.
        """
        # The worker's number may be any integer.
        return max(0, min(self.stop_step - step, SAMPLES_MAX))

    @property
    def signed(self) -> bool:
        """True once someone may hold a signature for the share.

        From then on, only the chain shows that the share is over.
        """
        return self.stage in _SIGNED

    def doing(self) -> Doing:
        """Return the progress report for the validator."""
        return Doing(
            key=self.key,
            phase=_PHASES[self.stage],
            step=self.step,
            steps=self.steps,
            loss=self.loss,
        )


@dataclass(frozen=True, slots=True)
class Shares:
    """All shares in the provider's record, sorted by their keys."""

    works: tuple[ShareWork, ...] = ()

    def get(self, key: ShareKey) -> ShareWork | None:
        """Return the work on a share; None if it is not in the record."""
        return next((work for work in self.works if work.key == key), None)

    def asked(self, key: ShareKey) -> ShareWork | None:
        """Return the work on a share that a later leg may have taken over; ``key`` is its key in that leg."""
        of_legs = (replace(key, leg=leg) for leg in range(key.leg, 0, -1))
        return next((work for work in map(self.get, of_legs) if work is not None), None)

    def put(self, work: ShareWork) -> "Shares":
        """Return the record with this work added or replaced."""
        others = (other for other in self.works if other.key != work.key)
        return replace(self, works=tuple(sorted((*others, work), key=lambda each: each.key)))

    def drop(self, key: ShareKey) -> "Shares":
        """Return the record without this share."""
        return replace(self, works=tuple(work for work in self.works if work.key != key))


def name_of(key: ShareKey) -> str:
    """Return a share's name, as used in file names and in the keys of actions."""
    return f"{key.order_id.hex()}-{key.leg}-{key.round}-{key.slot}-{key.issue}"
