"""How a provider's shares go on: a plain function of (state, event) to (state, actions).

A share goes checking → bonding → fetching → ready → training → trained → submitted → committed → delivered: the
validator gets the commitment first, and what it hides only once it is on chain under this provider's name. What a stage
asks for is a duty (:mod:`compute_provider.decide.duties`), as long as the stage lasts; an action is done once, and
after a restart :class:`Restarted` asks for those that were under way. Up to ``trained``, a share that the validator
does not list any more is dropped. From then on a signature may be out in the world, so the trace stays until the chain
says that it is over.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

from domain.keys import ShareKey
from link.types import NAN_BITS, Doing, OpenTask, Phase, TrainTask

TRIES_MAX = 3


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
}
_SIGNED = (
    Stage.TRAINED,
    Stage.SUBMITTED,
    Stage.COMMITTED,
    Stage.DELIVERED,
    Stage.REFUSED,
)


@dataclass(frozen=True, slots=True)
class ShareWork:
    """A share and how far it is.

    ``loss`` is FP32 bits, ``text`` why it failed or was refused, or where the job stops; the roots are there once it is
    trained, unless it stops. ``listed``: the validator asked for it when it was polled last.
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
    listed: bool = True

    @property
    def key(self) -> ShareKey:
        """The share."""
        return self.task.key

    @property
    def signed(self) -> bool:
        """Whether a signature may be out in the world: from then on the chain says when it is over."""
        return self.stage in _SIGNED

    def doing(self) -> Doing:
        """What the validator is told of it."""
        return Doing(self.key, _PHASES[self.stage], self.step, self.steps, self.loss)


@dataclass(frozen=True, slots=True)
class State:
    """All shares that this provider knows of, in the order of their keys, and where it stands with the validator.

    ``polled`` is when (monotonic seconds) the look at the validator began that ``openings`` and ``listed`` are from,
    and ``due``: what is to be trained of it, by when it has to be there. Only the shares outlast a restart.
    """

    works: tuple[ShareWork, ...] = ()
    joined: bool = False
    openings: tuple[OpenTask, ...] = ()
    polled: float = 0.0
    due: tuple[ShareKey, ...] = ()

    def get(self, key: ShareKey) -> ShareWork | None:
        """Return the work on a share."""
        return next((work for work in self.works if work.key == key), None)

    def by_deadline(self) -> list[ShareWork]:
        """Return the work that has to be there first before the rest; what has no deadline (yet) comes last."""
        places = {key: place for place, key in enumerate(self.due)}
        return sorted(self.works, key=lambda work: places.get(work.key, len(places)))

    def put(self, work: ShareWork) -> "State":
        """Return the state with this work added or replaced."""
        others = (other for other in self.works if other.key != work.key)
        return replace(self, works=tuple(sorted((*others, work), key=lambda each: each.key)))

    def drop(self, key: ShareKey) -> "State":
        """Return the state without this share."""
        return replace(self, works=tuple(work for work in self.works if work.key != key))


# Events


@dataclass(frozen=True, slots=True)
class Joined:
    """The validator has taken this provider."""


@dataclass(frozen=True, slots=True)
class Left:
    """The validator does not know this provider (any more, or yet)."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The validator's full picture, of the moment (monotonic seconds) when it was asked for."""

    train: tuple[TrainTask, ...]
    open: tuple[OpenTask, ...]
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class Checked:
    """The chain agrees with the task."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Bonded:
    """There is enough free bond for the share."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Fetched:
    """Payload and opening states are here."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Progressed:
    """The worker has done ``step`` of ``steps``."""

    key: ShareKey
    step: int
    steps: int
    loss: int


@dataclass(frozen=True, slots=True)
class Trained:
    """All boundaries are on disk, and the update; or there is none, because the job stops where ``text`` says."""

    key: ShareKey
    update_root: bytes = b""
    local_out_root: bytes = b""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The validator answered the commitment."""

    key: ShareKey
    accepted: bool
    text: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The chain has the commitment that this provider signed."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Delivered:
    """The validator answered the delivery."""

    key: ShareKey
    accepted: bool
    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong; ``again``: it may go better at the next poll."""

    key: ShareKey
    text: str
    again: bool


@dataclass(frozen=True, slots=True)
class Released:
    """Nobody can ask for this share's states any more, by the chain."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process is new; the state is from disk."""


Event = (
    Joined
    | Left
    | Polled
    | Checked
    | Bonded
    | Fetched
    | Progressed
    | Trained
    | Submitted
    | Committed
    | Delivered
    | Failed
    | Released
    | Restarted
)


# Actions: what is done at once, in this order


@dataclass(frozen=True, slots=True)
class Train:
    """Train, from the last boundary on disk."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Forget:
    """Stop whatever is under way for this share, and delete all that is on disk of it."""

    key: ShareKey


Action = Train | Forget


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """Return the next state and what is to be done at once."""
    match event:
        case Joined():
            return replace(state, joined=True), ()
        case Left():
            return replace(state, joined=False), ()
        case Polled():
            return _schedule(*_on_poll(state, event))
        case Restarted():
            return _schedule(*_on_restart(state))
        case Released(key):
            work = state.get(key)
            known = work is not None and work.signed
            return (state.drop(key), (Forget(key),)) if known else (state, ())
    work = state.get(event.key)
    # None: it was dropped while this was under way.
    return (state, ()) if work is None else _step_share(state, work, event)


def _step_share(state: State, work: ShareWork, event: Event) -> tuple[State, tuple[Action, ...]]:
    match event:
        case Checked() if work.stage is Stage.CHECKING:
            return state.put(replace(work, stage=Stage.BONDING)), ()
        case Bonded() if work.stage is Stage.BONDING:
            return state.put(replace(work, stage=Stage.FETCHING)), ()
        case Fetched() if work.stage is Stage.FETCHING:
            return _schedule(state.put(replace(work, stage=Stage.READY)))
        case Progressed() if work.stage is Stage.TRAINING:
            moved = replace(work, step=event.step, steps=event.steps, loss=event.loss)
            return state.put(moved), ()
        case Trained() if work.stage is Stage.TRAINING:
            trained = replace(
                work,
                stage=Stage.TRAINED,
                update_root=event.update_root,
                local_out_root=event.local_out_root,
                text=event.text,
            )
            return _schedule(state.put(trained))
        case Submitted() if work.stage in (Stage.TRAINED, Stage.SUBMITTED):
            stage = Stage.SUBMITTED if event.accepted else Stage.REFUSED
            return state.put(replace(work, stage=stage, text=event.text)), ()
        # From here on nobody can take the work.
        case Committed() if work.stage in (Stage.TRAINED, Stage.SUBMITTED):
            return state.put(replace(work, stage=Stage.COMMITTED)), ()
        case Delivered() if work.stage in (Stage.COMMITTED, Stage.DELIVERED):
            stage = Stage.DELIVERED if event.accepted else Stage.REFUSED
            return state.put(replace(work, stage=stage, text=event.text)), ()
        case Failed() if work.signed:
            # The next poll tries again.
            return state.put(replace(work, text=event.text)), ()
        case Failed():
            # While the chain does not bear the task out, asking it again costs next to nothing.
            tried = work.tries + (work.stage not in (Stage.CHECKING, Stage.BONDING))
            tries = tried if event.again else TRIES_MAX
            failed = replace(work, stage=Stage.FAILED, tries=tries, text=event.text)
            return _schedule(state.put(failed))
    # What came after the share had moved on.
    return state, ()


def _on_poll(state: State, event: Polled) -> tuple[State, tuple[Action, ...]]:
    actions: list[Action] = []
    listed = {task.key: task for task in event.train}
    for work in state.works:
        task = listed.get(work.key)
        if work.signed:
            if work.listed is (task is None):
                state = state.put(replace(work, listed=task is not None))
        elif task is None or not _same(task, work.task):
            actions.append(Forget(work.key))
            state = state.drop(work.key)
        elif work.stage is Stage.FAILED and work.tries < TRIES_MAX:
            state = state.put(replace(work, stage=Stage.CHECKING))
    for task in event.train:
        if state.get(task.key) is None:
            state = state.put(ShareWork(task, Stage.CHECKING))
    to_train = {work.key for work in state.works if work.stage < Stage.TRAINED}
    due = sorted((task.seconds_left, task.key) for task in event.train if task.key in to_train)
    keys = tuple(key for _, key in due)
    return replace(state, openings=event.open, polled=event.began, due=keys), tuple(actions)


def _on_restart(state: State) -> tuple[State, tuple[Action, ...]]:
    training = (work for work in state.works if work.stage is Stage.TRAINING)
    return state, tuple(Train(work.task) for work in training)


def _schedule(state: State, actions: tuple[Action, ...] = ()) -> tuple[State, tuple[Action, ...]]:
    """Give the worker the next share when it has none, by deadline: one at a time uses the machine best."""
    if any(work.stage is Stage.TRAINING for work in state.works):
        return state, actions
    for work in state.by_deadline():
        if work.stage is Stage.READY:
            return state.put(replace(work, stage=Stage.TRAINING)), (*actions, Train(work.task))
    return state, actions


def _same(one: TrainTask, other: TrainTask) -> bool:
    """Whether two tasks ask for the same training; time left and list of files may differ."""
    return replace(one, seconds_left=0, payload=()) == replace(other, seconds_left=0, payload=())
