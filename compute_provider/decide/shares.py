"""What a provider decides: a plain function of (state, event) to (state, actions).

No I/O, no clock. A share goes checking → fetching → ready → training → trained → submitted. Every
action may be carried out twice without harm, and after a restart :class:`Restarted` asks for
whatever was under way. Up to ``trained``, a share that the validator does not list any more is
dropped. From then on a signature may be out in the world, so the trace stays until the chain says
that it is over.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

from domain.records import ShareKey
from link.types import NAN_BITS, Doing, OpenTask, Phase, TrainTask

TRIES_MAX = 3


class Stage(IntEnum):
    """Where a share stands."""

    CHECKING = 1  # the task's claims against the chain
    FETCHING = 2  # payload and opening states
    READY = 3  # waits for the worker
    TRAINING = 4
    TRAINED = 5  # trace, update and signature are on disk
    SUBMITTED = 6  # the validator has it
    REFUSED = 7  # the validator did not take it; the trace stays all the same
    FAILED = 8


_PHASES = {
    Stage.CHECKING: Phase.FETCHING,
    Stage.FETCHING: Phase.FETCHING,
    Stage.READY: Phase.FETCHING,
    Stage.TRAINING: Phase.TRAINING,
    Stage.TRAINED: Phase.UPLOADING,
    Stage.SUBMITTED: Phase.SUBMITTED,
    Stage.REFUSED: Phase.FAILED,
    Stage.FAILED: Phase.FAILED,
}
_SIGNED = (Stage.TRAINED, Stage.SUBMITTED, Stage.REFUSED)


@dataclass(frozen=True, slots=True)
class Work:
    """A share and how far it is.

    ``loss`` is FP32 bits, ``text`` why it failed or was refused; the roots are there once it is trained.
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
        """What the validator is told of it."""
        return Doing(self.key, _PHASES[self.stage], self.step, self.steps, self.loss)


@dataclass(frozen=True, slots=True)
class State:
    """All shares that this provider knows of, in the order of their keys."""

    works: tuple[Work, ...] = ()

    def get(self, key: ShareKey) -> Work | None:
        """Return the work on a share."""
        return next((work for work in self.works if work.key == key), None)

    def put(self, work: Work) -> "State":
        """Return the state with this work added or replaced."""
        others = (other for other in self.works if other.key != work.key)
        return State(tuple(sorted((*others, work), key=lambda each: each.key)))

    def drop(self, key: ShareKey) -> "State":
        """Return the state without this share."""
        return State(tuple(work for work in self.works if work.key != key))


# Events


@dataclass(frozen=True, slots=True)
class Polled:
    """The validator's full picture."""

    train: tuple[TrainTask, ...]
    open: tuple[OpenTask, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """The chain agrees with the task."""

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
    """All boundaries and the update are on disk."""

    key: ShareKey
    update_root: bytes
    local_out_root: bytes


@dataclass(frozen=True, slots=True)
class Submitted:
    """The validator answered the submission."""

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
class Reported:
    """The chain has an open report of this share."""

    key: ShareKey
    segment: int


@dataclass(frozen=True, slots=True)
class Released:
    """Nobody can ask for this share's states any more, by the chain."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process is new; the state is from disk."""


Event = (
    Polled
    | Checked
    | Fetched
    | Progressed
    | Trained
    | Submitted
    | Failed
    | Reported
    | Released
    | Restarted
)


# Actions


@dataclass(frozen=True, slots=True)
class Check:
    """Compare the task with the chain."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch payload and opening states."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Train:
    """Train, from the last boundary on disk."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop whatever is under way for this share."""

    key: ShareKey


@dataclass(frozen=True, slots=True)
class Submit:
    """Sign, upload and submit."""

    task: TrainTask


@dataclass(frozen=True, slots=True)
class Open:
    """Upload the states at these boundaries."""

    key: ShareKey
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Object:
    """Replay the segment that was reported and, if it holds, object on the chain."""

    task: TrainTask
    segment: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete all that is on disk of this share."""

    key: ShareKey


Action = Check | Fetch | Train | Stop | Submit | Open | Object | Forget


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """Return the next state and what is to be done."""
    match event:
        case Polled():
            return _schedule(*_on_poll(state, event))
        case Restarted():
            return _schedule(*_on_restart(state))
        case Released(key):
            work = state.get(key)
            known = work is not None and work.stage in _SIGNED
            return (state.drop(key), (Forget(key),)) if known else (state, ())
    work = state.get(event.key)
    if work is None:  # it was dropped while this was under way
        return state, ()
    match event:
        case Checked() if work.stage is Stage.CHECKING:
            return state.put(replace(work, stage=Stage.FETCHING)), (Fetch(work.task),)
        case Fetched() if work.stage is Stage.FETCHING:
            return _schedule(state.put(replace(work, stage=Stage.READY)), ())
        case Progressed() if work.stage is Stage.TRAINING:
            moved = replace(work, step=event.step, steps=event.steps, loss=event.loss)
            return state.put(moved), ()
        case Trained() if work.stage is Stage.TRAINING:
            trained = replace(
                work,
                stage=Stage.TRAINED,
                update_root=event.update_root,
                local_out_root=event.local_out_root,
            )
            return _schedule(state.put(trained), (Submit(work.task),))
        case Submitted() if work.stage in _SIGNED:
            stage = Stage.SUBMITTED if event.accepted else Stage.REFUSED
            return state.put(replace(work, stage=stage, text=event.text)), ()
        case Failed() if work.stage in _SIGNED:
            return state.put(replace(work, text=event.text)), ()  # the next poll tries again
        case Failed():
            # While the chain does not bear the task out, asking it again costs next to nothing.
            tried = work.tries + (work.stage is not Stage.CHECKING)
            tries = tried if event.again else TRIES_MAX
            failed = replace(work, stage=Stage.FAILED, tries=tries, text=event.text)
            return _schedule(state.put(failed), ())
        case Reported() if work.stage in _SIGNED:
            return state, (Object(work.task, event.segment),)
    return state, ()  # an answer that came after the share had moved on


def _on_poll(state: State, event: Polled) -> tuple[State, tuple[Action, ...]]:
    actions: list[Action] = []
    listed = {task.key: task for task in event.train}
    for work in state.works:
        task = listed.get(work.key)
        if work.stage in _SIGNED:
            # Still listed after it was signed: the validator has not got it, or has lost it.
            if task is not None and work.stage is not Stage.REFUSED:
                actions.append(Submit(work.task))
        elif task is None or not _same(task, work.task):
            actions += [Stop(work.key), Forget(work.key)]
            state = state.drop(work.key)
        elif work.stage is Stage.FAILED and work.tries < TRIES_MAX:
            state = state.put(replace(work, stage=Stage.CHECKING))
            actions.append(Check(work.task))
    for task in event.train:
        if state.get(task.key) is None:
            state = state.put(Work(task, Stage.CHECKING))
            actions.append(Check(task))
    for opening in event.open:
        asked = state.get(opening.key)
        if asked is not None and asked.stage in _SIGNED:
            actions.append(Open(opening.key, opening.indices))
    return state, tuple(actions)


def _on_restart(state: State) -> tuple[State, tuple[Action, ...]]:
    actions: list[Action] = []
    for work in state.works:
        if work.stage is Stage.CHECKING:
            actions.append(Check(work.task))
        elif work.stage is Stage.FETCHING:
            actions.append(Fetch(work.task))
        elif work.stage is Stage.TRAINING:
            actions.append(Train(work.task))
        elif work.stage is Stage.TRAINED:
            actions.append(Submit(work.task))
    return state, tuple(actions)


def _schedule(state: State, actions: tuple[Action, ...]) -> tuple[State, tuple[Action, ...]]:
    """Give the worker the next share when it has none: one at a time uses the machine best."""
    if any(work.stage is Stage.TRAINING for work in state.works):
        return state, actions
    for work in state.works:
        if work.stage is Stage.READY:
            return state.put(replace(work, stage=Stage.TRAINING)), (*actions, Train(work.task))
    return state, actions


def _same(one: TrainTask, other: TrainTask) -> bool:
    """Whether two tasks ask for the same training; time left and list of files may differ."""
    return replace(one, seconds_left=0, payload=()) == replace(other, seconds_left=0, payload=())
