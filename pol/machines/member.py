"""The process of one machine of a group. It runs its part of each step, and exchanges tensors with the other members.

The process enters the sandbox before it reads the job. Its sockets were connected before, and it can open no others.
"""

import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from host import sandbox
from pol.errors import NotFinite, OutOfRange, StateError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.dataset import BATCH, batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import load_document
from pol.job.shards import load_data
from pol.machines.channel import Channel
from pol.machines.ends import Ends
from pol.machines.form import GLOBAL, LOCAL
from pol.machines.messages import (
    COMMAND_BYTES_MAX,
    LOST,
    MEMORY,
    NOT_FINITE,
    OTHER,
    OUT_OF_RANGE,
    STATE,
    Failed,
    Hash,
    Held,
    Join,
    Joined,
    Make,
    MetricValues,
    Open,
    TensorLeaves,
    Train,
    Work,
    receive,
    send,
)
from pol.machines.parts import state_specs_of, step_files
from pol.machines.stream import LinkError, LostMachine, Stream
from pol.rules.schedule import batch_number
from pol.split.exchanges import Moves, Out
from pol.split.machine import Machine
from pol.split.member import Member
from pol.split.plan import make_plan
from pol.state.arrays import Array, canonical_array
from pol.state.canonical import state_pieces, tensor_leaves
from pol.state.pieces import iter_tensors
from pol.values import TensorSpec, f32_bits

T = TypeVar("T")
_log = logging.getLogger("assay.machines")
_FOREVER: Final = float("inf")
_TEXT_MAX: Final = 2_000
METRIC: Final = "metric."


class _Slot:
    """The part of a slot that one machine has: its member of the plan, its channels and its tensors."""

    def __init__(self, number: int, peers: Mapping[int, Stream], command: Join) -> None:
        directory = Path(command.directory)
        self._job = load_document(directory)
        document = self._job.document
        spec = command.machine
        machine = Machine(speed=spec.speed, memory=spec.memory, bandwidth=spec.bandwidth)
        plan = make_plan(document.step, [machine] * command.machines, command.stages, command.rows, parts=command.parts)
        engine = Engine(command.engine.name, command.engine.device, command.engine.threads)
        computing = backend(engine, bounded=False)
        self._member = Member(plan, number, document.seed, computing)
        self._number, self._files = number, step_files(plan, document)
        self._columns = {name.removeprefix(BATCH) for name in self._member.inputs if name.startswith(BATCH)}
        # A machine that reads no rows need not have them.
        self._data = load_data(directory, document) if self._columns else None
        specs = state_specs_of(document)
        keepers = (*self._files[0].keepers, *self._files[1].keepers)
        self._kept = sorted(name for name, keeper in zip(specs, keepers, strict=True) if keeper == number)
        self._read = {name for name in (*self._member.inputs, *self._kept) if name in specs}
        self._ends = Ends(self._job, number, len(plan.used), machine, computing, self._drive)
        self._tensors: dict[str, Array] = {}
        self._leaves: dict[str, bytes] = {}
        self._sent = self._messages = 0
        self._cpu = time.process_time()
        self._channels: dict[int, Channel] = {}
        for other, stream in peers.items():
            try:
                self._channels[other] = Channel.open(
                    stream, number, other, command.key, command.context, command.patience_ms / 1000
                )
            except LinkError as error:
                raise LostMachine(other, error.reason) from None

    @property
    def _specs(self) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
        document = self._job.document
        return document.global_tensors, document.local_tensors

    def open(self, command: Open) -> Held:
        """Read the tensors that this machine needs, and report the hashes of all of them."""
        self._forget()
        paths = command.global_path, command.local_path
        for prefix, path, specs, file in zip((GLOBAL, LOCAL), paths, self._specs, self._files, strict=True):
            names = {name.removeprefix(prefix) for name in self._read if name.startswith(prefix)}
            needed = file.names(specs, self._number)
            there = [spec for spec in specs if spec.name in needed] if command.is_cut else specs
            self._tensors |= {prefix + name: array for name, array in iter_tensors(Path(path), there, names)}
        return self._held({}, sorted(self._read))

    def hash(self, command: Hash) -> Held:
        """Hash this machine's tensors of the files that a program at the end of a round reads."""
        self._forget()
        return self._answer(self._ends.hash(command), {})

    def make(self, command: Make) -> Held:
        """Run this machine's part of a program at the end of a round."""
        self._forget()
        try:
            return self._answer(self._ends.make(command), {})
        except (NotFinite, OutOfRange) as error:
            raise StepError(-1, error) from None

    def _forget(self) -> None:
        """Free all tensors. They may be those of another share."""
        self._leaves.clear()
        self._tensors.clear()

    def answer(self, command: Work) -> Held:
        """Do what a command says."""
        match command:
            case Open():
                return self.open(command)
            case Train():
                return self.train(command)
            case Hash():
                return self.hash(command)
            case Make():
                return self.make(command)

    def train(self, command: Train) -> Held:
        """Run a segment, and write the tensors that this machine looks after."""
        values: dict[str, list[int]] = {}
        for step in range(command.begin, command.begin + command.steps):
            for name, value in self._step(step, command.slot).items():
                values.setdefault(name, []).append(f32_bits(float(value)))
        for prefix, path in (("global.", command.global_path), ("local.", command.local_path)):
            own = {name.removeprefix(prefix): self._tensors[name] for name in self._kept if name.startswith(prefix)}
            with Path(path).open("xb") as file:
                file.writelines(state_pieces(own))
        return self._held(values, self._kept)

    def _step(self, step: int, slot: int) -> dict[str, Array]:
        """Run a step, and return the metrics that this machine computes.

        The step takes the tensors that it changes, so that they are freed after their last use.
        """
        try:
            outputs = self._drive(self._member.run(self._inputs(step, slot)))
            metrics = {}
            for name in sorted(outputs):
                array = canonical_array(outputs.pop(name), name)
                if name.startswith(METRIC):
                    metrics[name.removeprefix(METRIC)] = array
                elif name in self._read:
                    self._leaves.pop(name, None)
                    self._tensors[name] = array
        except (NotFinite, OutOfRange) as error:
            raise StepError(step, error) from None
        return metrics

    def _inputs(self, step: int, slot: int) -> dict[str, Array]:
        """Return the inputs of a step. This machine keeps only the tensors that the step does not change."""
        document = self._job.document
        at = document.start.step + step
        number = batch_number(document.slots, at, slot)
        inputs = dict(self._tensors)
        if self._data is not None:
            inputs |= batch_at(self._data, self._job, number, self._columns)
        inputs[STEP], inputs[BATCH_NUMBER] = np.array(at, np.int64), np.array(number, np.int64)
        for name in self._tensors.keys() & set(self._member.outputs):
            del self._tensors[name]
        return inputs

    def _drive(self, moves: Moves[T]) -> T:
        """Run the moves of this machine over its channels."""
        try:
            move = next(moves)
            while True:
                if isinstance(move, Out):
                    other = move.to
                    self._channels[other].send(move.message)
                    self._sent += sum(array.nbytes for array in move.message)
                    self._messages += 1
                    # The channel alone keeps the message, and only until it is sent.
                    del move
                    move = moves.send(())
                else:
                    other = move.source
                    move = moves.send(self._channels[other].receive(move.forms))
        except StopIteration as end:
            result: T = end.value
        except LinkError as error:
            raise LostMachine(other, error.reason) from None
        for other, channel in self._channels.items():
            try:
                channel.flush()
            except LinkError as error:
                raise LostMachine(other, error.reason) from None
        return result

    def _held(self, values: Mapping[str, Sequence[int]], names: Sequence[str]) -> Held:
        for name in names:
            if name not in self._leaves:
                self._leaves[name] = b"".join(tensor_leaves(self._tensors[name], name))
        return self._answer({name: self._leaves[name] for name in names}, values)

    def _answer(self, leaves: Mapping[str, bytes], values: Mapping[str, Sequence[int]]) -> Held:
        sent, messages = self._sent, self._messages
        self._sent = self._messages = 0
        before, self._cpu = self._cpu, time.process_time()
        return Held(
            tensors=tuple(TensorLeaves(name, own) for name, own in leaves.items()),
            metrics=tuple(MetricValues(name, tuple(own)) for name, own in values.items()),
            sent=sent,
            messages=messages,
            cpu_us=max(0, int(1e6 * (self._cpu - before))),
        )


class StepError(Exception):
    """The error of a step that has no result; its number is -1 if it is a program at the end of a round."""

    def __init__(self, step: int, error: NotFinite | OutOfRange) -> None:
        super().__init__(str(error))
        self.step, self.error = step, error


def _failed(error: Exception) -> Failed:
    match error:
        case LostMachine():
            return _failure(LOST, reason=error.reason, machine=error.machine)
        case StepError():
            kind = NOT_FINITE if isinstance(error.error, NotFinite) else OUT_OF_RANGE
            return _failure(kind, field=error.error.field, reason=error.error.reason, step=error.step)
        case StateError():
            return _failure(STATE, field=error.field, reason=error.reason)
        case MemoryError():
            return _failure(MEMORY)
        case _:
            return _failure(OTHER, reason=f"{type(error).__name__}: {error}")


def _failure(kind: str, *, field: str = "", reason: str = "", step: int = -1, machine: int = -1) -> Failed:
    return Failed(kind=kind, field=field[:_TEXT_MAX], reason=reason[:_TEXT_MAX], step=step, machine=machine)


def main(
    control: int,
    parent: int,
    folder: Path,
    memory_bytes: int,
    number: int,
    peers: Mapping[int, int],
    reads: Sequence[Path],
) -> None:
    """Serve the leader at the socket ``control`` as machine ``number``. ``peers`` has the socket to each other member.

    The process may write only into ``folder``, and read only there and in ``reads``. It ends after its first failure.
    """
    for open_end in sandbox.enter(parent, folder, memory_bytes, reads):
        _log.warning("sandbox: %s", open_end)
    # The leader handles Ctrl-C, so a member ignores it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leader = Stream(control, "the leader")
    slot: _Slot | None = None
    try:
        while True:
            kinds = (Join,) if slot is None else (Open, Train, Hash, Make)
            command: Join | Work = receive(leader, kinds, COMMAND_BYTES_MAX, _FOREVER)
            answer: Joined | Held
            try:
                if slot is None:
                    assert isinstance(command, Join)
                    streams = {other: Stream(descriptor, f"machine {other}") for other, descriptor in peers.items()}
                    slot, answer = _Slot(number, streams, command), Joined(os.getpid())
                else:
                    assert not isinstance(command, Join)
                    answer = slot.answer(command)
            except Exception as error:  # noqa: BLE001  (the leader hears of every error)
                _log.debug("machine %s fails", number, exc_info=True)
                send(leader, _failed(error), time.monotonic() + command_patience(command))
                os._exit(1)
            send(leader, answer, _FOREVER)
    except LinkError as error:
        _log.debug("machine %s ends: %s", number, error)
        # The leader has ended or does not need this member anymore.
        os._exit(0)


def command_patience(command: Join | Work) -> float:
    """Return the longest time in seconds to report a failure."""
    return command.patience_ms / 1000 if isinstance(command, Join) else 60.0
