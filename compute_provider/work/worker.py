"""The process that trains: sandboxed, one order at a time, then it ends.

It gets a :class:`WorkOrder` as JSON on standard input and answers with JSON lines on standard output; numbers go
through the pipe, states through files in the share's folder. It has no key and no network. The daemon kills it to
cancel it: every boundary that was reported is on disk.

    {"ready": {"steps": N, "open": [...]}}      what the sandbox could not close
    {"step": n, "loss": bits}
    {"boundary": {...}}                          its states are in I.global and I.local
    {"done": {"update_root": hex, "local_out_root": hex}}   update.state, local_out.state
    {"stopped": "where and why"}                 the job has no result there: the boundaries so far are the share
    {"failed": "why", "again": false}
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from domain import codec
from host import sandbox
from host.files import write_durably
from link.types import NAN_BITS
from pol.values import f32_bits
from pol.work.records import Boundary

# The rest of ``pol`` brings NumPy, which comes after the sandbox.
if TYPE_CHECKING:
    from pol.executor.interface import Backend
    from pol.job.load import LoadedJob
    from pol.state.arrays import State
    from pol.work.records import RoundSlot

Emit = Callable[[Boundary, "State", "State"], None]
UPDATE, LOCAL_OUT = "update.state", "local_out.state"


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What the worker is to do: train a share.

    ``job`` is the job's directory, ``folder`` the share's, ``global_in`` and ``local_in`` are files of canonical
    bytes. ``boundaries`` are those of an earlier try: training goes on from the last one.
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


def main(parent: int, produce: "Producer | None" = None) -> None:
    """Read the order, close the sandbox, work; ``produce`` takes the place of honest training."""
    order = codec.decode(WorkOrder, sys.stdin.buffer.readline())
    folder = Path(order.folder)
    open_ends = sandbox.enter(parent, folder, order.memory_bytes)
    out = sys.stdout
    try:
        _work(order, folder, open_ends, out, produce or honest)
    except Refused as refused:
        _say(out, failed=str(refused), again=False)
    except MemoryError:
        _say(out, failed="not enough memory", again=False)
    except OSError as error:
        # A full disk, for one, may have space again later.
        _say(out, failed=f"{error.filename or folder}: {error.strerror or error}", again=True)


def _work(
    order: WorkOrder, folder: Path, open_ends: Sequence[str], out: TextIO, produce: "Producer"
) -> None:
    from pol.errors import ExecutionError, JobError, ReplayError, StateError, Stopped
    from pol.executor.backend import backend
    from pol.executor.names import TORCH
    from pol.job.load import load_job

    try:
        loaded = load_job(Path(order.job)).without_initial()
        opening, local = _opening_states(order, loaded)
        # starts threads
        executor = backend(order.backend)
        if order.backend != TORCH:
            sandbox.forbid_processes()
        _say(out, ready={"steps": loaded.job.document.round_steps, "open": list(open_ends)})
        task = Task(order, folder, loaded, opening, local, out, executor)
        update, update_root, local_out, local_out_root = produce(task)
    except JobError as error:
        raise Refused(f"the job does not load: {error}") from None
    except Stopped as stop:
        _say(out, stopped=str(stop))
        return
    except (StateError, ExecutionError, ReplayError) as error:
        raise Refused(str(error)) from None
    write_durably(folder / UPDATE, update)
    write_durably(folder / LOCAL_OUT, local_out)
    _say(out, done={"update_root": update_root.hex(), "local_out_root": local_out_root.hex()})


@dataclass(frozen=True, slots=True)
class Task:
    """A share to train, with everything in memory."""

    order: WorkOrder
    folder: Path
    loaded: "LoadedJob"
    opening: "State"
    local: "State"
    out: TextIO
    backend: "Backend"
    bend: "Callable[[Boundary, State, State], tuple[Boundary, State, State]] | None" = None

    @property
    def part(self) -> "RoundSlot":
        """What the share trains."""
        return _part(self.order)

    @property
    def segments(self) -> int:
        """The number n of segments."""
        return self.loaded.job.document.share_segments

    def emit(self, boundary: Boundary, state: "State", local: "State") -> None:
        """Put the states on disk, then tell of the boundary."""
        from pol.state.canonical import state_pieces

        if self.bend is not None:
            boundary, state, local = self.bend(boundary, state, local)
        write_durably(self.folder / f"{boundary.index}.global", state_pieces(state))
        write_durably(self.folder / f"{boundary.index}.local", state_pieces(local))
        _say(self.out, boundary=codec.to_plain(boundary))

    def train(
        self, segments: range, state: "State", local: "State", emit: Emit
    ) -> "tuple[State, State]":
        """Train some segments, one after another, from the states where they begin; return the states at their end."""
        from pol.work.train import train_segments

        first = self.order.round * self.loaded.job.document.round_steps

        def on_step(step: int, loss: float) -> None:
            _say(self.out, step=step - first + 1, loss=_bits(loss))

        return train_segments(
            self.loaded,
            self.part,
            segments,
            state,
            local,
            backend=self.backend,
            on_boundary=emit,
            on_step=on_step,
        )


Produced = tuple[bytes, bytes, bytes, bytes]
"""Update, its root, local_out, its root; states as canonical bytes."""
Producer = Callable[[Task], Produced]


def honest(task: Task) -> Produced:
    """Train what is left of the share, from the last boundary on disk."""
    from pol.state.canonical import encode_state
    from pol.work.train import opening_boundary, share_update

    start, state, local = _resume(task)
    if start == 0:
        task.emit(opening_boundary(task.loaded, task.part, state, local), state, local)
    state, local = task.train(range(start, task.segments), state, local, task.emit)
    result = share_update(task.loaded, task.opening, state, local)
    update = encode_state(result.update)
    return update, result.update_root, encode_state(local), result.local_out_root


def _resume(task: Task) -> tuple[int, "State", "State"]:
    """Return the last boundary of an earlier try whose files are what they were."""
    for boundary in reversed(task.order.boundaries):
        if boundary.index == 0:
            break
        try:
            state, local = read_boundary(task.loaded, task.folder, boundary)
        except (OSError, Refused):
            continue
        return boundary.index, state, local
    return 0, task.opening, task.local


def read_boundary(loaded: "LoadedJob", folder: Path, boundary: Boundary) -> tuple["State", "State"]:
    """Read the states at a boundary and check their roots; Refused, OSError."""
    document = loaded.job.document
    index = boundary.index
    return (
        read_state(folder / f"{index}.global", document.global_tensors, boundary.global_root),
        read_state(folder / f"{index}.local", document.local_tensors, boundary.local_root),
    )


def read_state(path: Path, specs: Any, root: bytes) -> "State":
    """Read a canonical state and check its root; Refused, OSError."""
    from pol.errors import StateError
    from pol.state.canonical import decode_state, state_tree

    try:
        state = decode_state(path.read_bytes(), specs)
    except StateError as error:
        raise Refused(f"{path.name} is no state of this job: {error}") from None
    if state_tree(state).root != root:
        raise Refused(f"{path.name} is not the state that the chain names")
    return state


def _opening_states(order: WorkOrder, loaded: "LoadedJob") -> tuple["State", "State"]:
    document = loaded.job.document
    return (
        read_state(Path(order.global_in), document.global_tensors, order.global_root),
        read_state(Path(order.local_in), document.local_tensors, order.local_root),
    )


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
    main(int(sys.argv[1]))
