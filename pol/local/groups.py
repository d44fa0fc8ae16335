"""The shares of a local run that several processes of this machine train together, each as a machine of its own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pol.errors import StateError, Stopped
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob
from pol.local.shares import Keep, Observe, SlotResult, TrainRound, link_job, write_state
from pol.machines.form import GroupSpec, Shape, check_device, number_of, spec_here
from pol.machines.group import Group
from pol.machines.nodes import hosts_of, members_on, spec_on, wait_for_nodes
from pol.machines.parts import forms_of
from pol.machines.starters import Processes, Starter
from pol.state.arrays import State
from pol.state.canonical import read_state
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, first_state, slot_state
from pol.work.train import opening_boundary, share_update

Machines = Shape
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
) -> Iterator[TrainRound]:
    """Yield the function that trains a round: one slot after another, and each slot on all machines.

    ``keep`` and ``observe`` are as in :func:`pol.local.shares.train_here`. ``watch`` receives the group before each
    segment. ``start`` says where the machines are.
    """
    with TemporaryDirectory(prefix="assay-run-") as name:
        folder = Path(name)
        link_job(directory, loaded, folder / "job")
        files = folder / "files"
        with (
            start(machines, engine, files) as (spec, starter),
            Group(folder / "job", forms_of(loaded.job), files, spec, starter) as group,
        ):
            yield _trainer(group, files, loaded, engine, keep, observe, watch)


def _trainer(
    group: Group,
    folder: Path,
    loaded: LoadedJob,
    engine: Engine,
    keep: Keep | None,
    observe: Observe | None,
    watch: WatchGroup,
) -> TrainRound:
    document = loaded.job.document
    updating = backend(engine)
    files = folder / "opened.global", folder / "opened.local"
    ends = folder / "end.global", folder / "end.local"

    def read(paths: tuple[Path, Path]) -> tuple[State, State]:
        group.write(*paths)
        states = read_state(paths[0], document.global_tensors), read_state(paths[1], document.local_tensors)
        for path in paths:
            path.unlink()
        return states

    def train(round: int, opening: State, locals_: Sequence[State]) -> Iterator[SlotResult]:
        for slot, local in enumerate(locals_):
            part = RoundSlot(round, slot)
            start = slot_state(loaded, opening, local)
            boundaries = [opening_boundary(loaded, part, start)]
            if keep is not None:
                keep(boundaries[0], start.global_state, start.local_state)
            if round == 0:
                start = first_state(loaded, slot, start)
            for path, state in zip(files, (start.global_state, start.local_state), strict=True):
                write_state(path, state)

            def on_step(step: int, loss: float, slot: int = slot) -> None:
                if observe is not None:
                    observe(round, slot, step, loss)

            try:
                group.open(*files, start.roots)
                for index in range(document.share_segments):
                    watch(group)
                    boundaries.append(group.run_segment(part, index, on_step))
                    if keep is not None:
                        keep(boundaries[-1], *read(ends))
                end = SlotState(*read(ends))
                if end.roots != (boundaries[-1].global_root, boundaries[-1].local_root):
                    raise StateError("state", "is not the one whose hashes the machines reported")
                result = share_update(loaded, opening, end, updating)
            except Stopped as stop:
                raise stop.within(f"slot {slot}") from None
            for path in files:
                path.unlink()
            yield SlotResult(
                boundaries=tuple(boundaries),
                update=result.update,
                update_root=result.update_root,
                local_out=result.local_out,
                local_out_root=result.local_out_root,
            )

    return train
