"""The leader's end of the members of a group: commands to all of them, and the roots of what they report.

The leader reads no job and loads no state, and imports no numerical library.
"""

import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TypeVar

from domain.hashing import hash_fields, merkle_root, u32
from pol.errors import AggregationFailed, NotFiniteStep, StateError, StepFailed, Stopped, UpdateFailed
from pol.machines.form import CLOSE, GLOBAL, LOCAL, OUTER, EndFile, GroupSpec, SlotForm
from pol.machines.messages import (
    LOST,
    MEMORY,
    NOT_FINITE,
    OUT_OF_RANGE,
    STATE,
    EngineSpec,
    Failed,
    Hash,
    Held,
    Join,
    Joined,
    MachineSpec,
    Make,
    Open,
    Train,
    Work,
)
from pol.machines.starters import MachinesLost, Needs, Starter
from pol.machines.stream import LinkError
from pol.rules.commitment import chunk_leaf
from pol.state.layout import header_chunk, tensor_chunks
from pol.state.merge import cut_piece
from pol.values import TensorSpec, f32_number
from pol.work.executor import OutOfMemory, PoolError, WorkerDied

T = TypeVar("T", Joined, Held)

_GRACE = 10.0
"""Time in seconds in which the other members report why they cannot go on, after one has failed."""
_LOOK_SECONDS = 0.2
_HASH_SIZE = 32


@dataclass(frozen=True, slots=True)
class Trained:
    """The end of some steps: the roots of both states, and the metrics of each step in the order of the job."""

    roots: tuple[bytes, bytes]
    metrics: tuple[tuple[float, ...], ...]


class Members:
    """The processes of one plan. They end together, at the first failure of one of them."""

    def __init__(
        self, form: SlotForm, spec: GroupSpec, starter: Starter, needs: Needs, check: Callable[[], None]
    ) -> None:
        """Start the members, and connect them.

        They end if ``check``, which is called often during a command, raises an error.
        """
        self._form, self._spec, self._check = form, spec, check
        self.sent = self.messages = self.cpu_us = 0
        self._step = [EndFile(*pair) for pair in zip(form.states, form.files, strict=True)]
        self._is_remote, self._folder = starter.is_remote, needs.folder
        self._cut: tuple[tuple[str, tuple[Path, ...]], Path] | None = None
        self._numbers = count(1)
        self._links = starter.start(form.used, replace(needs, data=form.data))
        key, group = secrets.token_bytes(32), secrets.token_bytes(32)
        join = Join(
            directory=str(needs.directory),
            machine=MachineSpec(spec.machine.speed, spec.machine.memory, spec.machine.bandwidth),
            machines=spec.machines,
            stages=form.stages,
            rows=form.rows,
            parts=form.parts,
            engine=EngineSpec(spec.engine.name, spec.engine.device, spec.engine.threads),
            key=key,
            context=hash_fields("assay/machines", group, form.job_id, *map(u32, (form.stages, form.rows, form.parts))),
            patience_ms=int(1000 * spec.patience),
        )
        joined = self._each(dict.fromkeys(self._links, join), Joined)
        self.pids = {machine: answer.process for machine, answer in joined.items()}
        """The process of each machine, by its number there."""

    def open(self, global_path: Path, local_path: Path) -> tuple[bytes, bytes]:
        """Let each member read its tensors. Return the roots of both states, computed from the members' hashes."""
        given = self._given("", (global_path, local_path), self._step)
        commands = {
            machine: Open(global_path=str(first), local_path=str(second), is_cut=self._is_remote)
            for machine, (first, second) in given.items()
        }
        answers = self._each(commands, Held, self._step)
        # The members have read them.
        self._forget_pieces()
        return self._step_roots(answers)

    def train(self, slot: int, begin: int, steps: int, folder: Path) -> Trained:
        """Run ``steps`` steps from step ``begin``, and return what they reach.

        The members write their pieces of the states into ``folder``.
        """
        commands = {
            machine: Train(
                begin=begin,
                steps=steps,
                slot=slot,
                global_path=str(folder / f"{machine}.global"),
                local_path=str(folder / f"{machine}.local"),
            )
            for machine in self._links
        }
        answers = self._each(commands, Held, self._step)
        return Trained(self._step_roots(answers), self._metrics(answers, steps))

    def hash(self, program: str, reads: Sequence[Path]) -> tuple[bytes, ...]:
        """Let the members hash the files that a program at the end of a round reads. Return the roots of the files."""
        files = self._form.reads(program, len(reads))
        given = self._given(program, reads, files)
        commands = {
            machine: Hash(program=program, reads=tuple(map(str, paths)), is_cut=self._is_remote)
            for machine, paths in given.items()
        }
        return self._roots(self._each(commands, Held, files, program), files, _numbers(files))

    def make(self, program: str, reads: Sequence[Path], folder: Path) -> tuple[bytes, ...]:
        """Let the members run a program at the end of a round, and return the roots of the states that it makes.

        The members write their pieces of these states into ``folder``; see :meth:`pieces`.
        """
        files = self._form.writes(program)
        given = self._given(program, reads, self._form.reads(program, len(reads)))
        commands = {
            machine: Make(
                program=program,
                reads=tuple(map(str, paths)),
                is_cut=self._is_remote,
                writes=tuple(str(folder / f"{machine}.{index}") for index in range(len(files))),
            )
            for machine, paths in given.items()
        }
        return self._roots(self._each(commands, Held, files, program), files, _numbers(files))

    def pieces(self, folder: Path, state: str) -> list[Path]:
        """Return the pieces of a state that members wrote into ``folder``: ``global``, ``local``, or the number of a
        state that a program at the end of a round makes.
        """
        return [folder / f"{machine}.{state}" for machine in self._links]

    @property
    def are_over(self) -> bool:
        """True if the members have ended."""
        return not self._links

    def close(self) -> None:
        """End all members."""
        if self._links:
            with ThreadPoolExecutor(len(self._links)) as threads:
                for link in self._links.values():
                    threads.submit(link.end)
        self._links.clear()
        self._forget_pieces()

    def _given(self, program: str, paths: Sequence[Path], files: Sequence[EndFile]) -> dict[int, tuple[Path, ...]]:
        """Return the files that each member reads: ``paths``, or on other machines pieces with what it needs of them.

        Raises StateError if a file is not the state that it should be.
        """
        if not self._is_remote:
            return dict.fromkeys(self._links, tuple(paths))
        key = program, tuple(paths)
        if self._cut is None or self._cut[0] != key:
            self._forget_pieces()
            self._cut = key, self._cut_files(paths, files)
        folder, numbers = self._cut[1], range(len(paths))
        return {machine: tuple(folder / f"{machine}.{index}" for index in numbers) for machine in self._links}

    def _cut_files(self, paths: Sequence[Path], files: Sequence[EndFile]) -> Path:
        """Write what each member needs of some files into a new folder, as ``<machine>.<index>``."""
        folder = self._folder / f"pieces-{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        try:
            for index, (path, file) in enumerate(zip(paths, files, strict=True)):
                for machine in self._links:
                    names = file.form.names(file.specs, machine)
                    cut_piece(path, file.specs, names, folder / f"{machine}.{index}")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder

    def _forget_pieces(self) -> None:
        if self._cut is not None:
            shutil.rmtree(self._cut[1], ignore_errors=True)
            self._cut = None

    def _limit(self, files: Sequence[EndFile]) -> int:
        """Return the largest size of an answer with the hashes of the tensors of some files, and with metrics."""
        tensors = [spec for file in files for spec in file.specs]
        chunks, metrics = sum(map(tensor_chunks, tensors)), max(1, len(self._form.metrics))
        return (1 << 20) + 2 * _HASH_SIZE * chunks + 2_048 * len(tensors) + 16 * self._form.segment_steps * metrics

    def _each(
        self, commands: Mapping[int, Join | Work], kind: type[T], files: Sequence[EndFile] = (), program: str = ""
    ) -> dict[int, T]:
        """Send each member its command, and return the answers, which have hashes of ``files``.

        Raises MachinesLost if a member is lost, and the error of the step, or of the program at the end of a round, if
        it has no result. In both cases all members have ended.
        """
        limit = self._limit(files)
        answers: dict[int, T] = {}
        failures: dict[int, Failed] = {}
        silent: dict[int, str] = {}
        try:
            waiting = {self._links[machine].ask(command, limit): machine for machine, command in commands.items()}
            deadline = time.monotonic() + self._spec.patience * (len(waiting) + 1)
            while waiting:
                left = max(0.0, deadline - time.monotonic())
                done, _ = wait(waiting, min(left, _LOOK_SECONDS), FIRST_COMPLETED)
                self._check()
                for future in done:
                    machine = waiting.pop(future)
                    try:
                        answer = future.result()
                    except (LinkError, PoolError, OSError) as error:
                        why = str(error)
                        silent[machine] = why if why.startswith("machine ") else f"machine {machine}: {why}"
                        continue
                    if isinstance(answer, Failed):
                        failures[machine] = answer
                    elif isinstance(answer, kind):
                        answers[machine] = answer
                    else:
                        silent[machine] = f"machine {machine} sent something else than an answer"
                if not done and not left:
                    silent |= {machine: f"machine {machine} did not answer in time" for machine in waiting.values()}
                    break
                if failures or silent:
                    deadline = min(deadline, time.monotonic() + _GRACE)
            if failures or silent:
                self._raise(failures, silent, program)
        except BaseException:
            self.close()
            raise
        return answers

    def _raise(self, failures: Mapping[int, Failed], silent: Mapping[int, str], program: str) -> None:
        """Raise the error that explains the failures best: that of the job, then that of a machine."""
        own = [failure for failure in failures.values() if failure.kind in (NOT_FINITE, OUT_OF_RANGE)]
        if own:
            raise _stopped(min(own, key=lambda failure: (failure.step, failure.kind, failure.field)), program)
        for machine, failure in failures.items():
            if failure.kind == STATE:
                raise StateError(failure.field, failure.reason)
            if failure.kind == MEMORY:
                limit = f"{self._spec.memory} bytes" if self._spec.memory else "three quarters of its machine's"
                raise OutOfMemory(f"machine {machine} needs more memory than {limit}")
            if failure.kind != LOST:
                raise WorkerDied(f"machine {machine} failed: {failure.reason}")
        accused = {failure.machine: failure.reason for failure in failures.values()}
        lost = silent or {machine: reason for machine, reason in accused.items() if machine not in failures}
        if not lost:
            # Members blame each other, and cannot go on together: the one that most of them miss has to go.
            blames = Counter(failure.machine for failure in failures.values())
            most = max(blames, key=lambda machine: (blames[machine], machine))
            lost = {most: accused[most]}
        raise MachinesLost(sorted(lost), "; ".join(sorted(set(lost.values()))))

    def _step_roots(self, answers: Mapping[int, Held]) -> tuple[bytes, bytes]:
        first, second = self._roots(answers, self._step, (GLOBAL, LOCAL))
        return first, second

    def _roots(
        self, answers: Mapping[int, Held], files: Sequence[EndFile], prefixes: Sequence[str]
    ) -> tuple[bytes, ...]:
        """Return the roots of files from the hashes of their tensors, which have ``prefixes`` before their names.

        A machine that is not the keeper of a tensor must have read the same bytes as the keeper.
        """
        machines = {
            prefix + spec.name: (spec, keeper, readers)
            for prefix, file in zip(prefixes, files, strict=True)
            for spec, keeper, readers in zip(file.specs, file.form.keepers, file.form.readers, strict=True)
        }
        found: dict[str, bytes] = {}
        copies: list[tuple[int, str, bytes]] = []
        for machine, answer in answers.items():
            self.sent += answer.sent
            self.messages += answer.messages
            self.cpu_us += answer.cpu_us
            for tensor in answer.tensors:
                spec, keeper, readers = machines.get(tensor.name, (None, -1, ()))
                if spec is None or machine not in readers:
                    raise WorkerDied(f"machine {machine} reports a tensor that is not its own: {tensor.name!r}")
                if len(tensor.leaves) != _HASH_SIZE * tensor_chunks(spec):
                    raise WorkerDied(f"machine {machine} reports hashes that do not fit {tensor.name!r}")
                if machine == keeper:
                    found[tensor.name] = tensor.leaves
                else:
                    copies.append((machine, tensor.name, tensor.leaves))
        if len(found) != len(machines):
            raise WorkerDied("the machines do not report all tensors")
        for machine, name, leaves in copies:
            if leaves != found[name]:
                raise WorkerDied(f"machine {machine} has other bytes of {name!r} than its keeper")
        return tuple(_root(prefix, file.specs, found) for prefix, file in zip(prefixes, files, strict=True))

    def _metrics(self, answers: Mapping[int, Held], steps: int) -> tuple[tuple[float, ...], ...]:
        """Return the metrics of each step, in the order of the job."""
        found = {metric.name: metric.values for answer in answers.values() for metric in answer.metrics}
        names = self._form.metrics
        if found.keys() != set(names) or any(len(v) != steps for v in found.values()):
            raise WorkerDied("the machines do not report each metric for each step")
        values = [[f32_number(bits) for bits in found[name]] for name in names]
        return tuple(zip(*values, strict=True)) if values else ((),) * steps


def _stopped(failure: Failed, program: str) -> Stopped:
    """Return the error of a job that has no result in a step, or in a program at the end of a round."""
    if program == CLOSE:
        return UpdateFailed(failure.field, failure.reason)
    if program == OUTER:
        return AggregationFailed(failure.field, failure.reason)
    error = NotFiniteStep if failure.kind == NOT_FINITE else StepFailed
    return error(failure.step, failure.field, failure.reason)


def _numbers(files: Sequence[EndFile]) -> list[str]:
    """Return what members put before the names of tensors of some files."""
    return [f"{index}." for index in range(len(files))]


def _root(prefix: str, specs: Sequence[TensorSpec], leaves: Mapping[str, bytes]) -> bytes:
    """Return the root of a state (:class:`pol.state.canonical.StateTree`) from the hashes of its tensors' chunks."""
    hashes = [chunk_leaf(header_chunk(specs))]
    for spec in sorted(specs, key=lambda spec: spec.name):
        own = leaves[prefix + spec.name]
        hashes += [own[start : start + _HASH_SIZE] for start in range(0, len(own), _HASH_SIZE)]
    return merkle_root(hashes)
