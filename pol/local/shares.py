"""The shares of a local run: trained in this process one after another, or on an owner's cluster side by side."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from host.files import link_whole
from pol.errors import Stopped
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, load_job
from pol.job.write import INITIAL
from pol.state.arrays import State
from pol.state.canonical import read_state, state_pieces
from pol.work.executor import Executor
from pol.work.records import Boundary, RoundSlot
from pol.work.replayer import Lane, start_replayer
from pol.work.train import aggregate, train_share

Keep = Callable[[Boundary, State, State], None]
Observe = Callable[[int, int, int, float], None]
"""A function that receives round, slot, step and loss."""
_LANE = "shares"


@dataclass(frozen=True)
class SlotResult:
    """The result of a slot in a round: its boundaries, its update, and its local state at the end, with their roots."""

    boundaries: tuple[Boundary, ...]
    update: State
    update_root: bytes
    local_out: State
    local_out_root: bytes


TrainRound = Callable[[int, State, Sequence[State]], Iterator[SlotResult]]
"""A function that trains a round from its global state and the slots' local states; it yields slots in their order."""


Aggregate = Callable[[State, Iterable[State]], tuple[State, bytes]]
"""A function that returns the global state at the end of a round, and its root. It takes the state at the beginning,
and the updates of all slots in their order, one at a time.
"""


@dataclass(frozen=True, slots=True)
class Training:
    """The functions that compute a round of a local run."""

    train: TrainRound
    aggregate: Aggregate


def aggregating_here(loaded: LoadedJob, executor: Backend) -> Aggregate:
    """Return the function that computes the end of a round in this process."""

    def aggregated(opening: State, updates: Iterable[State]) -> tuple[State, bytes]:
        result = aggregate(loaded, opening, updates, executor)
        return result.state, result.root

    return aggregated


def train_here(
    loaded: LoadedJob,
    executor: Backend,
    keep: Keep | None,
    observe: Observe | None,
    segment_backend: Backend | None = None,
) -> TrainRound:
    """Return the function that trains a round in this process.

    ``segment_backend`` runs the steps, if it is given, and ``executor`` the updates.
    ``keep`` receives each boundary with its states. ``observe`` is called after each step.
    """

    def train(round: int, opening: State, locals_: Sequence[State]) -> Iterator[SlotResult]:
        for slot, local in enumerate(locals_):

            def on_step(step: int, loss: float, slot: int = slot) -> None:
                if observe is not None:
                    observe(round, slot, step, loss)

            part = RoundSlot(round, slot)
            try:
                share = train_share(
                    loaded,
                    part,
                    opening,
                    local,
                    backend=executor,
                    on_boundary=keep,
                    on_step=on_step,
                    segment_backend=segment_backend,
                )
            except Stopped as stop:
                raise stop.within(f"slot {slot}") from None
            yield SlotResult(
                boundaries=share.boundaries,
                update=share.update,
                update_root=share.update_root,
                local_out=share.local_out,
                local_out_root=share.local_out_root,
            )

    return train


@dataclass(frozen=True, slots=True)
class ShareTask:
    """A request to train a share elsewhere. It reads the first three paths, and writes the last two."""

    directory: Path
    opening: Path
    local: Path
    part: RoundSlot
    engine: Engine
    update: Path
    local_out: Path


@dataclass(frozen=True, slots=True)
class ShareEnd:
    """The boundaries and the roots of a share that was trained elsewhere, and the step and the loss of each step."""

    boundaries: tuple[Boundary, ...]
    update_root: bytes
    local_out_root: bytes
    losses: tuple[tuple[int, float], ...]


@lru_cache(maxsize=2)
def _loaded(directory: Path) -> LoadedJob:
    return load_job(directory)


@lru_cache(maxsize=2)
def _backend(engine: Engine) -> Backend:
    return backend(engine)


def train_task(task: ShareTask) -> ShareEnd:
    """Train a share, and write its update and its local state at the end."""
    loaded = _loaded(task.directory)
    document = loaded.job.document
    losses: list[tuple[int, float]] = []
    share = train_share(
        loaded,
        task.part,
        read_state(task.opening, document.global_tensors),
        read_state(task.local, document.local_tensors),
        backend=_backend(task.engine),
        on_step=lambda step, loss: losses.append((step, loss)),
    )
    write_state(task.update, share.update)
    write_state(task.local_out, share.local_out)
    return ShareEnd(
        boundaries=share.boundaries,
        update_root=share.update_root,
        local_out_root=share.local_out_root,
        losses=tuple(losses),
    )


@contextmanager
def training_elsewhere(
    executor: str,
    directory: Path,
    loaded: LoadedJob,
    engine: Engine,
    observe: Observe | None,
    aggregating: Aggregate,
) -> Iterator[Training]:
    """Yield the functions that train all slots of a round at once on the cluster that ``executor`` names, and end the
    round by ``aggregating``.

    ``observe`` is called for the steps of a slot when the slot is trained. Raises ClusterUnusable if this machine
    cannot use the cluster.
    """
    with TemporaryDirectory(prefix="assay-run-") as name:
        folder = Path(name)
        job = folder / "job"
        link_job(directory, loaded, job)
        lane = Lane(name=_LANE, processes=1, folder=folder / "files", reads=(job,))
        replayer = start_replayer(executor, engine, (lane,), folder / "driver")
        try:
            train = _trainer(replayer.lanes[_LANE], job, loaded, engine, folder / "files", observe)
            yield Training(train, aggregating)
        finally:
            replayer.close()


def _trainer(
    executor: Executor, directory: Path, loaded: LoadedJob, engine: Engine, folder: Path, observe: Observe | None
) -> TrainRound:
    document, updated = loaded.job.document, loaded.job.update_tensors

    def train(round: int, opening: State, locals_: Sequence[State]) -> Iterator[SlotResult]:
        write_state(folder / f"{round}.opening", opening)
        tasks = []
        for slot, local in enumerate(locals_):
            write_state(folder / f"{round}.{slot}.local", local)
            tasks.append(
                ShareTask(
                    directory=directory,
                    opening=folder / f"{round}.opening",
                    local=folder / f"{round}.{slot}.local",
                    part=RoundSlot(round, slot),
                    engine=engine,
                    update=folder / f"{round}.{slot}.update",
                    local_out=folder / f"{round}.{slot}.out",
                )
            )
        futures = [executor.submit(train_task, task) for task in tasks]
        for slot, (task, future) in enumerate(zip(tasks, futures, strict=True)):
            try:
                end = future.result()
            except Stopped as stop:
                raise stop.within(f"slot {slot}") from None
            if observe is not None:
                for step, loss in end.losses:
                    observe(round, slot, step, loss)
            yield SlotResult(
                boundaries=end.boundaries,
                update=read_state(task.update, updated),
                update_root=end.update_root,
                local_out=read_state(task.local_out, document.local_tensors),
                local_out_root=end.local_out_root,
            )
            for path in (task.local, task.update, task.local_out):
                path.unlink()
        (folder / f"{round}.opening").unlink()

    return train


def link_job(directory: Path, loaded: LoadedJob, to: Path) -> None:
    """Link the files of a job into a folder of their own: the job's folder may hold earlier runs, too."""
    names = {file.path for file in loaded.job.payload}
    if (directory / INITIAL).exists():
        names.add(INITIAL)
    for name in names:
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        link_whole(directory / name, target)


def write_state(to: Path, state: State) -> None:
    """Write the canonical bytes of a state to a new file."""
    with to.open("xb") as file:
        for piece in state_pieces(state):
            file.write(piece)
