"""The process that trains: sandboxed, one share of an order after another, until it is ended.

It gets a :class:`WorkOrder` as a line of JSON on standard input for each share and answers with JSON lines on standard
output; numbers go through the pipe, states through files in the only folder that it may write to, from where the
daemon takes them to the share's. What it has loaded of the job, and compiled, serves the next share; it takes shares of
one job only. It has no key and no network. The daemon kills it to cancel a share: every boundary that was reported is
on disk.

    {"ready": {"steps": N, "open": [...]}}      what the sandbox could not close
    {"step": n, "loss": bits}
    {"boundary": {...}}                          its states are in I.global and I.local
    {"done": {"update_root": hex, "local_out_root": hex}}   update.state, local_out.state
    {"stopped": "where and why"}                 the job has no result there: the boundaries so far are the share
    {"failed": "why", "again": false}            it ends itself after that
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
from pol.values import f32_bits
from pol.work.records import Boundary

# The rest of ``pol`` brings NumPy, which comes after the sandbox.
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
"""What a worker says last of a share."""


def boundary_files(index: int) -> tuple[str, str]:
    """Return the names of the files with the global and the local state at a boundary."""
    return f"{index}.global", f"{index}.local"


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What the worker is to do: train a share.

    ``job`` is the job's directory, ``folder`` the share's, ``global_in`` and ``local_in`` are files of canonical
    bytes: all of them are read only. ``boundaries`` are those of an earlier try: training goes on from the last one.
    """

    job: str
    folder: str
    global_in: str
    local_in: str
    global_root: bytes
    local_root: bytes
    round: int
    slot: int
    backend: str
    memory_bytes: int
    boundaries: tuple[Boundary, ...]


class Refused(Exception):
    """The task cannot be done as it stands; another try would end alike."""


def main(parent: int, folder: Path, memory_bytes: int, produce: "Producer | None" = None) -> None:
    """Close the sandbox around ``folder``, and do one order after another; ``produce`` replaces honest training."""
    open_ends = sandbox.enter(parent, folder, memory_bytes)
    worker = ShareWorker(folder, open_ends, sys.stdout, produce or honest)
    for line in sys.stdin.buffer:
        if not worker.serve(codec.decode(WorkOrder, line)):
            break


class ShareWorker:
    """Serves shares of one job, and keeps what it has loaded and compiled."""

    def __init__(self, folder: Path, open_ends: Sequence[str], out: TextIO, produce: "Producer") -> None:
        self._folder, self._open_ends = folder, open_ends
        self._out, self._produce = out, produce
        self._kept: tuple[str, LoadedJob, Backend, Beside] | None = None

    def serve(self, order: WorkOrder) -> bool:
        """Train a share and tell of it; return whether this process may serve another one."""
        try:
            self._work(order)
        except Refused as refused:
            self._say(failed=str(refused), again=False)
        except MemoryError:
            self._say(failed="not enough memory", again=False)
        except OSError as error:
            # A full disk, for one, may have space again later.
            where = error.filename or self._folder
            self._say(failed=f"{where}: {error.strerror or error}", again=True)
        else:
            return True
        return False

    def _work(self, order: WorkOrder) -> None:
        from pol.errors import ExecutionError, JobError, ReplayError, StateError, Stopped

        try:
            loaded, executor, aside = self._ready(order)
            task = Task(
                order=order,
                folder=self._folder,
                loaded=loaded,
                out=self._out,
                backend=executor,
                aside=aside,
            )
            self._say(ready={"steps": loaded.job.document.round_steps, "open": self._open_ends})
            self._open_ends = ()
            made = self._produce(task, *_resume(task))
        except JobError as error:
            raise Refused(f"the job does not load: {error}") from None
        except Stopped as stop:
            self._say(stopped=str(stop))
            return
        except (StateError, ExecutionError, ReplayError) as error:
            raise Refused(str(error)) from None
        write_bytes_durably(self._folder / UPDATE, made.update)
        write_bytes_durably(self._folder / LOCAL_OUT, made.local_out)
        roots = made.update_root.hex(), made.local_out_root.hex()
        self._say(done=dict(zip(("update_root", "local_out_root"), roots, strict=True)))

    def _ready(self, order: WorkOrder) -> "tuple[LoadedJob, Backend, Beside]":
        """Return the job, what runs it and what hashes beside: of the first share, and the same for each other."""
        if self._kept is None:
            from pol.executor.backend import backend
            from pol.executor.names import TORCH
            from pol.job.load import load_job
            from pol.work.aside import Beside

            loaded = load_job(Path(order.job)).without_initial()
            # both start threads
            executor, aside = backend(order.backend), Beside()
            if order.backend != TORCH:
                sandbox.forbid_processes()
            self._kept = order.job, loaded, executor, aside
        job, loaded, executor, aside = self._kept
        if job != order.job:
            raise Refused("this worker has met another job")
        return loaded, executor, aside

    def _say(self, **message: object) -> None:
        _say(self._out, **message)


@dataclass(frozen=True, slots=True)
class Task:
    """A share to train, its job loaded. What it makes is written to ``folder``."""

    order: WorkOrder
    folder: Path
    loaded: "LoadedJob"
    out: TextIO
    backend: "Backend"
    aside: "Beside"
    bend: "Callable[[Boundary, State, State], tuple[Boundary, State, State]] | None" = None

    @property
    def part(self) -> "RoundSlot":
        """What the share trains."""
        return _part(self.order)

    @property
    def segments(self) -> int:
        """The number n of segments."""
        return self.loaded.job.document.share_segments

    def opening(self) -> "SlotState":
        """Read the states that the share begins with, which are the caller's; Refused, StateError, OSError."""
        order = self.order
        paths = Path(order.global_in), Path(order.local_in)
        return open_states(self.loaded, paths, (order.global_root, order.local_root))

    def emit(self, boundary: Boundary, state: "State", local: "State") -> None:
        """Put the states on disk, then tell of the boundary."""
        from pol.state.canonical import state_pieces

        if self.bend is not None:
            boundary, state, local = self.bend(boundary, state, local)
        for name, part in zip(boundary_files(boundary.index), (state, local), strict=True):
            write_bytes_durably(self.folder / name, state_pieces(part))
        _say(self.out, boundary=codec.to_plain(boundary))

    def train(self, segments: range, start: "SlotState", emit: Emit) -> "SlotState":
        """Train some segments, one after another, from where they begin; return the states at their end.

        Nobody may use ``start`` any more, nor the states that ``emit`` got once it has returned.
        """
        from pol.work.train import train_segments

        first = self.order.round * self.loaded.job.document.round_steps

        def on_step(step: int, loss: float) -> None:
            _say(self.out, step=step - first + 1, loss=_bits(loss))

        return train_segments(
            self.loaded,
            self.part,
            segments,
            start,
            backend=self.backend,
            on_boundary=emit,
            on_step=on_step,
            aside=self.aside,
        )


@dataclass(frozen=True, slots=True)
class Produced:
    """What comes of a share: canonical bytes of two states, in pieces, and the roots that are said of them."""

    update: Iterable[bytes | memoryview]
    update_root: bytes
    local_out: Iterable[bytes | memoryview]
    local_out_root: bytes


Producer = Callable[[Task, int, "SlotState"], Produced]
"""Gets the task, and from which boundary on there is something to train, with the states there."""


def honest(task: Task, index: int, start: "SlotState") -> Produced:
    """Train what is left of the share, from the last boundary on disk."""
    from pol.work.train import opening_boundary

    if index == 0:
        zero = opening_boundary(task.loaded, task.part, start)
        task.aside.begin(lambda: task.emit(zero, start.global_state, start.local_state))
    return result_of(task, task.train(range(index, task.segments), start, task.emit))


def result_of(task: Task, end: "SlotState") -> Produced:
    """Return what comes of a share that ends in these states."""
    from pol.state.canonical import state_pieces
    from pol.work.train import is_difference, share_update

    # It is read again, so that nothing but the state that is trained is in memory meanwhile.
    opening = (task.opening() if is_difference(task.loaded) else end).global_state
    result = share_update(task.loaded, opening, end)
    return Produced(
        update=state_pieces(result.update),
        update_root=result.update_root,
        local_out=state_pieces(end.local_state),
        local_out_root=result.local_out_root,
    )


def _resume(task: Task) -> "tuple[int, SlotState]":
    """Return the last boundary of an earlier try whose files are what they were, or the opening; as ``opening``."""
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
    """Read a global and a local state and check their roots; Refused, OSError."""
    from pol.work.segments import SlotState

    document = loaded.job.document
    specs = document.global_tensors, document.local_tensors
    first, second = (_read_state(*each) for each in zip(paths, specs, strict=True))
    state = SlotState(first, second)
    for path, root, found in zip(paths, roots, state.roots, strict=True):
        if found != root:
            raise Refused(f"{path.name} is not the state that the chain names")
    return state


def _read_state(path: Path, specs: Any) -> "State":
    from pol.errors import StateError
    from pol.state.canonical import read_state

    try:
        return read_state(path, specs)
    except StateError as error:
        raise Refused(f"{path.name} is no state of this job: {error}") from None


def _part(order: WorkOrder) -> "RoundSlot":
    from pol.work.records import RoundSlot

    return RoundSlot(order.round, order.slot)


def _bits(loss: float) -> int:
    try:
        return f32_bits(loss)
    except OverflowError:
        return NAN_BITS


def _say(out: TextIO, **message: object) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
