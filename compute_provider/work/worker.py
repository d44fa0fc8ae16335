"""The sandboxed process that trains one share of an order after another, until the daemon ends it.

For each share it reads a :class:`WorkOrder`, a line of JSON on standard input, and it answers with JSON lines on
standard output. Numbers are sent through the pipe. States are written to files in the only folder in which the process
may write, and the daemon moves these files to the share's folder. Of the provider's files, the process can read only
its own folder, the job, and the files that the daemon links for the share. The loaded job and the compiled code are
used again for the next share, so all shares must be of one job. The process has no key and no network. The daemon kills
it to cancel a share: every boundary that it reported is on disk. These are its messages:

    {"ready": {"steps": N, "open": [...]}}      "open": the isolation that this system does not offer
    {"step": n, "loss": bits}
    {"boundary": {...}}                          its states are in I.global and I.local
    {"done": {"update_root": hex, "local_out_root": hex}}   update.state, local_out.state
    {"stopped": "where and why", "step": 17}     the job stopped itself: the share is the boundaries up to there
                                                 (the step is -1 for a stop in the update)
    {"failed": "why", "again": false}            the process ends after this message
    {"failed": "why", "again": false, "unable": true}   this machine can train no share of the order
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from domain import codec
from host import sandbox
from host.files import write_bytes_durably
from link.types import NAN_BITS
from pol.executor.names import Engine
from pol.values import f32_bits
from pol.work.records import Boundary

# The rest of ``pol`` imports NumPy, which must not be loaded before the sandbox is closed.
if TYPE_CHECKING:
    from pol.executor.interface import Backend
    from pol.job.load import LoadedJob
    from pol.state.arrays import State
    from pol.work.aside import Beside
    from pol.work.records import RoundSlot
    from pol.work.segments import SlotState

Emit = Callable[[Boundary, "State", "State"], None]
UPDATE, LOCAL_OUT = "update.state", "local_out.state"
ENDS = {"done", "stopped", "failed"}
"""The kinds of message that end a share."""


def boundary_files(index: int) -> tuple[str, str]:
    """Return the names of the files with the global and the local state at a boundary."""
    return f"{index}.global", f"{index}.local"


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """The worker's order to train a share.

    ``job`` is the job's directory, and ``folder`` is the share's folder. ``global_in`` and ``local_in`` are files of
    canonical bytes. The worker only reads from these four paths. ``boundaries`` are the boundaries that an earlier try
    reported: training continues from the last one. ``hardware`` says whether the tier of the leg on the chain has
    hardware arithmetic. If there is a ``claimed`` boundary, the worker recomputes the segment before it, and trains no
    further. The end agrees if it is within the job's thresholds of the claimed states; the claimed boundary is then
    reported, and otherwise the own one.
    """

    job: str
    folder: str
    global_in: str
    local_in: str
    global_root: bytes
    local_root: bytes
    round: int
    slot: int
    engine: Engine
    boundaries: tuple[Boundary, ...]
    hardware: bool = False
    claimed: Boundary | None = None


class Refused(Exception):
    """The error that is raised if a share cannot be trained and another try would fail in the same way."""


class Unable(Refused):
    """The error that is raised if this machine can train no share of the order."""


def main(arguments: Sequence[str], produce: "Producer | None" = None) -> None:
    """Enter the sandbox, in which only one folder is writable, and carry out one order after another.

    The ``arguments`` are the daemon's process id, the folder, the bytes of memory, the device, and the paths that the
    process may read. ``produce`` replaces honest training, for tests.
    """
    parent, place, memory, device, *reads = arguments
    folder = Path(place)
    open_ends = sandbox.enter(int(parent), folder, int(memory), map(Path, reads), device)
    worker = ShareWorker(folder, open_ends, sys.stdout, produce or honest)
    for line in sys.stdin.buffer:
        if not worker.serve(codec.decode(WorkOrder, line)):
            break


class ShareWorker:
    """The worker's state between shares: the loaded job and the back end, which are used for all shares of one job."""

    def __init__(self, folder: Path, open_ends: Sequence[str], out: TextIO, produce: "Producer") -> None:
        self._folder = folder
        self._open_ends = open_ends
        self._out = out
        self._produce = produce
        self._loaded: tuple[str, _Loaded] | None = None

    def serve(self, order: WorkOrder) -> bool:
        """Train a share and send its messages; return whether this process may serve another share."""
        try:
            self._work(order)
        except Unable as unable:
            self._send(failed=str(unable), again=False, unable=True)
        except Refused as refused:
            self._send(failed=str(refused), again=False)
        except MemoryError:
            self._send(failed="not enough memory", again=False)
        except OSError as error:
            # Another try may succeed: a full disk, for example, may have space again later.
            where = error.filename or self._folder
            self._send(failed=f"{where}: {error.strerror or error}", again=True)
        else:
            return True
        return False

    def _work(self, order: WorkOrder) -> None:
        from pol.errors import ExecutionError, JobError, ReplayError, StateError, StepFailed, Stopped

        try:
            loaded = self._load(order)
            task = Task(
                order=order,
                folder=self._folder,
                loaded=loaded.job,
                out=self._out,
                backend=loaded.backend,
                segment_backend=loaded.segment_backend,
                aside=loaded.aside,
            )
            self._send(ready={"steps": task.loaded.job.document.round_steps, "open": self._open_ends})
            self._open_ends = ()
            if order.claimed is not None:
                self._send(boundary=codec.to_plain(_recomputed(task, order.claimed)))
                return
            result = self._produce(task, *_resume(task))
        except JobError as error:
            raise Refused(f"the job does not load: {error}") from None
        except Stopped as stop:
            self._send(stopped=str(stop), step=stop.step if isinstance(stop, StepFailed) else -1)
            return
        except (StateError, ExecutionError, ReplayError) as error:
            raise Refused(str(error)) from None
        write_bytes_durably(self._folder / UPDATE, result.update)
        write_bytes_durably(self._folder / LOCAL_OUT, result.local_out)
        self._send(done={"update_root": result.update_root.hex(), "local_out_root": result.local_out_root.hex()})

    def _load(self, order: WorkOrder) -> "_Loaded":
        """Return the loaded job and what computes for it. The first share loads them."""
        if self._loaded is None:
            from pol.errors import ExecutionError
            from pol.executor.backend import backend
            from pol.executor.names import TORCH
            from pol.executor.segment_backend import segment_backend
            from pol.job.load import verify_job
            from pol.work.aside import Beside

            job = verify_job(Path(order.job)).without_initial()
            document = job.job.document
            # The next calls start threads, which count as processes: forbid processes only after them.
            executor = segments = backend(order.engine)
            is_hardware = order.hardware and document.tolerance is not None
            if is_hardware:
                try:
                    segments = segment_backend(document, order.engine, hardware=True)
                except ExecutionError as error:
                    raise Unable(f"this machine cannot train the order: {error}") from None
            aside = Beside()
            # Torch starts further threads while it computes.
            if order.engine.name != TORCH and not is_hardware:
                sandbox.forbid_processes()
            self._loaded = order.job, _Loaded(job=job, backend=executor, segment_backend=segments, aside=aside)
        path, loaded = self._loaded
        if path != order.job:
            raise Refused("this worker was started for another job")
        return loaded

    def _send(self, **message: object) -> None:
        _send(self._out, **message)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded job, the back ends of updates and of segments, and the thread that computes hashes beside them."""

    job: "LoadedJob"
    backend: "Backend"
    segment_backend: "Backend"
    aside: "Beside"


@dataclass(frozen=True, slots=True)
class Task:
    """A share to train, with its loaded job. The results are written to ``folder``.

    ``backend`` computes the update, always exactly, and ``segment_backend`` the segments, as the tier asks for.
    """

    order: WorkOrder
    folder: Path
    loaded: "LoadedJob"
    out: TextIO
    backend: "Backend"
    segment_backend: "Backend"
    aside: "Beside"
    bend: "Callable[[Boundary, State, State], tuple[Boundary, State, State]] | None" = None

    @property
    def part(self) -> "RoundSlot":
        """The round and the slot of the share."""
        return _part(self.order)

    @property
    def segments(self) -> int:
        """The number of segments of the share."""
        return self.loaded.job.document.share_segments

    def opening(self) -> "SlotState":
        """Read the share's initial states; the caller may change them. Refused, StateError or OSError if that fails."""
        order = self.order
        paths = Path(order.global_in), Path(order.local_in)
        return open_states(self.loaded, paths, (order.global_root, order.local_root))

    def emit(self, boundary: Boundary, state: "State", local: "State") -> None:
        """Write the states to disk, then report the boundary."""
        from pol.state.canonical import state_pieces

        if self.bend is not None:
            boundary, state, local = self.bend(boundary, state, local)
        for name, part in zip(boundary_files(boundary.index), (state, local), strict=True):
            write_bytes_durably(self.folder / name, state_pieces(part))
        _send(self.out, boundary=codec.to_plain(boundary))

    def train(self, segments: range, start: "SlotState", emit: Emit) -> "SlotState":
        """Train the segments in order from ``start``, the states at their first boundary; return the states at the end.

        The caller must not use ``start`` afterwards, and ``emit`` must not keep the states that it gets.
        """
        from pol.work.train import train_segments

        first = self.order.round * self.loaded.job.document.round_steps

        def on_step(step: int, loss: float) -> None:
            _send(self.out, step=step - first + 1, loss=_bits(loss))

        return train_segments(
            self.loaded,
            self.part,
            segments,
            start,
            backend=self.segment_backend,
            on_boundary=emit,
            on_step=on_step,
            aside=self.aside,
        )


@dataclass(frozen=True, slots=True)
class Produced:
    """The result of a share: the canonical bytes of two states, in pieces, and the roots that the provider claims."""

    update: Iterable[bytes | memoryview]
    update_root: bytes
    local_out: Iterable[bytes | memoryview]
    local_out_root: bytes


Producer = Callable[[Task, int, "SlotState"], Produced]
"""A function that trains a share. It takes the task, the index of the boundary to start from, and the states there."""


def honest(task: Task, index: int, start: "SlotState") -> Produced:
    """Train the rest of the share from the boundary ``index``, and return the true result."""
    from pol.work.train import opening_boundary

    if index == 0:
        zero = opening_boundary(task.loaded, task.part, start)
        task.aside.begin(lambda: task.emit(zero, start.global_state, start.local_state))
    return result_of(task, task.train(range(index, task.segments), start, task.emit))


def result_of(task: Task, end: "SlotState") -> Produced:
    """Return the result of a share whose training ended with the states ``end``."""
    from pol.job.updates import kind_of
    from pol.state.canonical import state_pieces
    from pol.work.train import share_update

    # The initial state is read again here, so that it need not stay in memory during the training.
    initial = (task.opening() if kind_of(task.loaded.job.document).reads_opening else end).global_state
    result = share_update(task.loaded, initial, end, task.backend)
    return Produced(
        update=state_pieces(result.update),
        update_root=result.update_root,
        local_out=state_pieces(result.local_out),
        local_out_root=result.local_out_root,
    )


def _recomputed(task: Task, claimed: Boundary) -> Boundary:
    """Recompute the segment before a boundary of the share.

    Return ``claimed`` if the own end is within the job's thresholds of it, and otherwise the own boundary.
    """
    from pol.job.document import JobDocument
    from pol.replay.distances import SegmentEnd, is_same_work
    from pol.work.segments import SlotState, first_state, slot_state

    document: JobDocument = task.loaded.job.document
    ends: list[Boundary] = []

    def keep(boundary: Boundary, _state: "State", _local: "State") -> None:
        ends.append(boundary)

    index, before = _resume(task)
    if index < claimed.index - 1:
        before = task.train(range(index, claimed.index - 1), before, keep)
    if (task.order.round, claimed.index) == (0, 1):
        before = first_state(task.loaded, task.order.slot, before)
    # The training overwrites the states that it begins with.
    begun = slot_state(task.loaded, before.global_state, before.local_state)
    own = task.train(range(claimed.index - 1, claimed.index), begun, keep)
    if document.tolerance is None:
        return ends[-1]

    def end(states: SlotState, metrics: Sequence[int]) -> SegmentEnd:
        named = dict(zip(document.metrics, metrics, strict=False))
        return SegmentEnd(states.global_state, states.local_state, named)

    first, second = boundary_files(claimed.index)
    folder = Path(task.order.folder)
    there = open_states(task.loaded, (folder / first, folder / second), (claimed.global_root, claimed.local_root))
    agrees = is_same_work(document.tolerance, end(before, ()), end(own, ends[-1].metrics), end(there, claimed.metrics))
    return claimed if agrees else ends[-1]


def _resume(task: Task) -> "tuple[int, SlotState]":
    """Return the index and the states of the last boundary on disk. If there is no such boundary, return 0 and the
    initial states.

    A boundary counts only if its files still have the roots that were reported. Errors as in :meth:`Task.opening`.
    """
    folder = Path(task.order.folder)
    for boundary in reversed(task.order.boundaries):
        if boundary.index == 0:
            break
        first, second = boundary_files(boundary.index)
        roots = boundary.global_root, boundary.local_root
        try:
            return boundary.index, open_states(task.loaded, (folder / first, folder / second), roots)
        except (OSError, Refused):
            continue
    return 0, task.opening()


def open_states(loaded: "LoadedJob", paths: tuple[Path, Path], roots: tuple[bytes, bytes]) -> "SlotState":
    """Read a global and a local state and check their roots; Refused or OSError if that fails."""
    from pol.work.segments import SlotState

    document = loaded.job.document
    specs = document.global_tensors, document.local_tensors
    global_state, local_state = (_read_state(*each) for each in zip(paths, specs, strict=True))
    state = SlotState(global_state, local_state)
    for path, expected, root in zip(paths, roots, state.roots, strict=True):
        if root != expected:
            raise Refused(f"{path.name} does not have the root that the chain names")
    return state


def _read_state(path: Path, specs: Any) -> "State":
    from pol.errors import StateError
    from pol.state.canonical import read_state

    try:
        return read_state(path, specs)
    except StateError as error:
        raise Refused(f"{path.name} is not a state of this job: {error}") from None


def _part(order: WorkOrder) -> "RoundSlot":
    from pol.work.records import RoundSlot

    return RoundSlot(order.round, order.slot)


def _bits(loss: float) -> int:
    try:
        return f32_bits(loss)
    except OverflowError:
        return NAN_BITS


def _send(out: TextIO, **message: object) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
