"""The shares of a local run that several processes of this machine train together, each as a machine of its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pol.errors import StateError, Stopped
from pol.executor.names import Engine
from pol.job.document import JobDocument
from pol.job.load import LoadedJob
from pol.job.paths import GLOBAL_STATE, LOCAL_STATE
from pol.local.shares import Keep, Observe, SlotResult, Training, link_job
from pol.machines.form import CLOSE, OUTER, GroupSpec, Shape, check_device, number_of, spec_here
from pol.machines.group import Group
from pol.machines.nodes import hosts_of, members_on, spec_on, wait_for_nodes
from pol.machines.parts import forms_of, write_own_state
from pol.machines.starters import Processes, Starter
from pol.state.arrays import State
from pol.state.stored import StoredState, aligned_state
from pol.values import TensorSpec
from pol.work.records import Boundary, RoundSlot

Machines = Shape
_READ_BYTES: Final = 1 << 20
WatchGroup = Callable[[Group], None]
StartGroup = Callable[[Machines, Engine, Path], AbstractContextManager[tuple[GroupSpec, Starter]]]
"""A function that yields the settings and the starter of a group. Members on this machine write into its folder."""


@contextmanager
def start_here(machines: Machines, engine: Engine, folder: Path) -> Iterator[tuple[GroupSpec, Starter]]:
    """Yield how a group of processes of this machine starts; ExecutionError as in :func:`spec_here`."""
    del folder
    spec = spec_here(machines, engine)
    yield spec, Processes(spec.machines)


def start_on(executor: str) -> StartGroup:
    """Return how a group starts on the cluster that ``executor`` names: each member on a node of its own.

    Raises ClusterUnusable if this machine cannot use the cluster, or if too few nodes compute.
    """

    @contextmanager
    def start(machines: Machines, engine: Engine, folder: Path) -> Iterator[tuple[GroupSpec, Starter]]:
        check_device(engine)
        number = number_of(machines)
        with members_on(executor, engine, folder.with_name("driver")) as cluster:
            nodes = wait_for_nodes(cluster, number)[:number]
            yield spec_on(machines, engine, nodes), hosts_of(cluster)

    return start


@contextmanager
def training_together(
    machines: Machines,
    directory: Path,
    loaded: LoadedJob,
    engine: Engine,
    keep: Keep | None,
    observe: Observe | None,
    watch: WatchGroup = lambda group: None,
    start: StartGroup = start_here,
) -> Iterator[Training]:
    """Yield the functions that compute a round: one slot after another, and each slot on all machines.

    ``keep`` and ``observe`` are as in :func:`pol.local.shares.train_here`. ``watch`` receives the group before each
    segment. ``start`` says where the machines are.

    States are in files, from which each machine reads its tensors. The results are states that stay on disk.
    """
    with TemporaryDirectory(prefix="assay-run-") as name:
        folder = Path(name)
        job = folder / "job"
        link_job(directory, loaded, job)
        files = folder / "files"
        with (
            start(machines, engine, files) as (spec, starter),
            Group(job, forms_of(loaded.job), files, spec, starter) as group,
        ):
            run = _Run(group, job, files, loaded.job.document, keep, observe, watch)
            yield Training(run.train, run.aggregate)


@dataclass(frozen=True, slots=True)
class _File:
    """A state in a file, and its root."""

    path: Path
    root: bytes


class _Run:
    """The training of a job on a group, one round after another."""

    def __init__(
        self,
        group: Group,
        job: Path,
        folder: Path,
        document: JobDocument,
        keep: Keep | None,
        observe: Observe | None,
        watch: WatchGroup,
    ) -> None:
        self._group, self._job, self._folder, self._document = group, job, folder, document
        self._keep, self._observe, self._watch = keep, observe, watch
        self._names = count()
        self._opening = _File(job / GLOBAL_STATE, document.global_root)
        self._locals = [_File(job / LOCAL_STATE, document.local_root)] * document.slots
        self._updates: list[_File] = []

    def train(self, round: int, _opening: State, _locals: Sequence[State]) -> Iterator[SlotResult]:
        """Train all slots of a round; see :data:`pol.local.shares.TrainRound`. The states are those that the round
        before has made.
        """
        for slot in range(self._document.slots):
            try:
                result = self._train_slot(RoundSlot(round, slot))
            except Stopped as stop:
                raise stop.within(f"slot {slot}") from None
            yield result

    def aggregate(self, _opening: State, updates: Iterable[State]) -> tuple[State, bytes]:
        """Compute the next global state; see :class:`pol.local.shares.Training`."""
        for _ in updates:
            # Each update is in a file when the slot is trained.
            pass
        reads = [self._opening, *self._updates]
        self._check(OUTER, reads)
        (root,) = self._group.make(OUTER, [file.path for file in reads])
        made = self._write(0, root)
        state = aligned_state(_bytes_of(made.path), self._document.global_tensors)
        for file in reads:
            self._remove(file)
        self._opening, self._updates = made, []
        return state, root

    def _train_slot(self, part: RoundSlot) -> SlotResult:
        group, opening, local = self._group, self._opening, self._locals[part.slot]
        roots = opening.root, local.root
        boundaries = [group.opening_boundary(part, roots)]
        self._keep_states(boundaries[0], opening.path, local.path)

        def on_step(step: int, loss: float) -> None:
            if self._observe is not None:
                self._observe(part.round, part.slot, step, loss)

        group.open(opening.path, local.path, roots)
        if part.round == 0:
            self._open_own_state(part.slot)
        for index in range(self._document.share_segments):
            self._watch(group)
            boundaries.append(group.run_segment(part, index, on_step))
            if self._keep is not None and index < self._document.share_segments - 1:
                for file in self._written_states(boundaries[-1]):
                    self._remove(file)
        end = self._written_states(boundaries[-1])
        self._check(CLOSE, reads := (opening, *end))
        update_root, local_root = group.make(CLOSE, [file.path for file in reads])
        update, local_out = self._write(0, update_root), self._write(1, local_root)
        for file in (*end, local):
            self._remove(file)
        self._locals[part.slot] = local_out
        self._updates.append(update)
        return SlotResult(
            boundaries=tuple(boundaries),
            update=self._stored(update, self._group.form.update_tensors),
            update_root=update_root,
            local_out=self._stored(local_out, self._document.local_tensors),
            local_out_root=local_root,
        )

    def _open_own_state(self, slot: int) -> None:
        """Let the group go on from the slot's own local state, if it has one."""
        path = self._folder / f"{next(self._names)}.own"
        root = write_own_state(self._job, slot, path)
        if root:
            self._group.open(self._opening.path, path, (self._opening.root, root))
            path.unlink()

    def _written_states(self, boundary: Boundary) -> tuple[_File, _File]:
        """Write the states at a boundary as whole files, and keep them if the caller wants it."""
        first, second = (self._folder / f"{next(self._names)}.end" for _ in range(2))
        self._group.write(first, second)
        self._keep_states(boundary, first, second)
        return _File(first, boundary.global_root), _File(second, boundary.local_root)

    def _keep_states(self, boundary: Boundary, first: Path, second: Path) -> None:
        if self._keep is not None:
            document = self._document
            states = [StoredState(first.open("rb"), document.global_tensors)]
            states.append(StoredState(second.open("rb"), document.local_tensors))
            self._keep(boundary, *states)

    def _check(self, program: str, reads: Sequence[_File]) -> None:
        """Raise StateError if a file does not have the root that the machines reported."""
        if self._group.hash(program, [file.path for file in reads]) != tuple(file.root for file in reads):
            raise StateError("state", "is not the one whose hashes the machines reported")

    def _write(self, index: int, root: bytes) -> _File:
        """Write a state that the last program has made as a whole file."""
        path = self._folder / f"{next(self._names)}.made"
        with path.open("xb") as file:
            file.writelines(self._group.made(index))
        return _File(path, root)

    def _stored(self, file: _File, specs: Sequence[TensorSpec]) -> StoredState:
        return StoredState(file.path.open("rb"), specs)

    def _remove(self, file: _File) -> None:
        if file.path.parent != self._job:
            file.path.unlink()


def _bytes_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, _READ_BYTES), b"")
