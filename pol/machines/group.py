"""A group of member processes that trains one slot together, and the leader's end of it.

The leader knows a form of the job (:mod:`pol.machines.form`) and the files of states. It reads no job and loads no
state, and imports no numerical library. If a member is lost, the step ends for all. The leader ends the group, and a
new group of the machines that are left begins at the last boundary, with a new plan and a new key.
"""

import logging
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self, TypeVar

from domain.hashing import hash_fields, merkle_root, u32
from pol.errors import NotFinite, NotFiniteStep, ReplayError, StateError, StepFailed
from pol.machines.form import GLOBAL, LOCAL, FormOf, GroupSpec, SlotForm
from pol.machines.messages import (
    LOST,
    MEMORY,
    NOT_FINITE,
    OUT_OF_RANGE,
    STATE,
    EngineSpec,
    Failed,
    Held,
    Join,
    Joined,
    MachineSpec,
    Open,
    Train,
)
from pol.machines.starters import MachinesLost, Needs, Processes, Starter
from pol.machines.stream import LinkError
from pol.rules.commitment import boundary_root, chunk_leaf
from pol.state.layout import header_chunk, tensor_chunks
from pol.state.merge import merged_pieces
from pol.values import TensorSpec, f32_number, mean_metrics
from pol.work.executor import OutOfMemory, PoolError, WorkerDied
from pol.work.places import boundary_step, check_segment
from pol.work.records import Boundary, RoundSlot

R = TypeVar("R")
T = TypeVar("T", Joined, Held)
_log = logging.getLogger("assay.machines")

_GRACE = 10.0
"""Time in seconds in which the other members report why they cannot go on, after one has failed."""
_LOOK_SECONDS = 0.2
_HASH_SIZE = 32
_READ_BYTES = 1 << 20
OnStep = Callable[[int, float], None]


def _go_on() -> None:
    pass


class GroupLost(ReplayError):
    """The error of a group that has no machine left, or whose machines have never met."""


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
        self._kept = form.keeper_of
        self._specs = form.tensors
        chunks = sum(tensor_chunks(tensor) for tensor in self._specs.values())
        steps, metrics = form.segment_steps, len(form.metrics)
        self._limit = (1 << 20) + 2 * _HASH_SIZE * chunks + 2_048 * len(self._specs) + 16 * steps * max(1, metrics)
        self._links = starter.start(form.used, needs)
        key, group = secrets.token_bytes(32), secrets.token_bytes(32)
        joined = self._all(
            Join(
                directory=str(needs.directory),
                machine=MachineSpec(spec.machine.speed, spec.machine.memory, spec.machine.bandwidth),
                machines=spec.machines,
                stages=form.stages,
                rows=form.rows,
                engine=EngineSpec(spec.engine.name, spec.engine.device, spec.engine.threads),
                key=key,
                context=hash_fields("assay/machines", group, form.job_id, u32(form.stages), u32(form.rows)),
                patience_ms=int(1000 * spec.patience),
            ),
            Joined,
        )
        self.pids = {machine: answer.process for machine, answer in joined.items()}
        """The process of each machine, by its number there."""

    def open(self, global_path: Path, local_path: Path) -> tuple[bytes, bytes]:
        """Let each member read its tensors. Return the roots of both states, computed from the members' hashes."""
        return self._roots(self._all(Open(str(global_path), str(local_path)), Held))

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
        answers = self._each(commands, Held)
        return Trained(self._roots(answers), self._metrics(answers, steps))

    def pieces(self, folder: Path, state: str) -> list[Path]:
        """Return the pieces of a state (``global`` or ``local``) that members wrote into ``folder``."""
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

    def _all(self, command: Join | Open, kind: type[T]) -> dict[int, T]:
        return self._each(dict.fromkeys(self._links, command), kind)

    def _each(self, commands: Mapping[int, Join | Open | Train], kind: type[T]) -> dict[int, T]:
        """Send each member its command, and return the answers. Raises MachinesLost if a member is lost, and the error
        of the step if it has no result. In both cases all members have ended.
        """
        answers: dict[int, T] = {}
        failures: dict[int, Failed] = {}
        silent: dict[int, str] = {}
        try:
            waiting = {self._links[machine].ask(command, self._limit): machine for machine, command in commands.items()}
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
                self._raise(failures, silent)
        except BaseException:
            self.close()
            raise
        return answers

    def _raise(self, failures: Mapping[int, Failed], silent: Mapping[int, str]) -> None:
        """Raise the error that explains the failures best: that of the job, then that of a machine."""
        own = [failure for failure in failures.values() if failure.kind in (NOT_FINITE, OUT_OF_RANGE)]
        if own:
            first = min(own, key=lambda failure: (failure.step, failure.kind, failure.field))
            if first.kind == NOT_FINITE:
                error = NotFinite(first.field, first.reason)
                raise NotFiniteStep(first.step, error.field, error.reason)
            raise StepFailed(first.step, first.field, first.reason)
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

    def _roots(self, answers: Mapping[int, Held]) -> tuple[bytes, bytes]:
        leaves: dict[str, tuple[bytes, ...]] = {}
        for machine, answer in answers.items():
            self.sent += answer.sent
            self.messages += answer.messages
            self.cpu_us += answer.cpu_us
            for tensor in answer.tensors:
                spec = self._specs.get(tensor.name)
                if spec is None or self._kept[tensor.name] != machine:
                    raise WorkerDied(f"machine {machine} reports a tensor that is not its own: {tensor.name!r}")
                if len(tensor.leaves) != _HASH_SIZE * tensor_chunks(spec):
                    raise WorkerDied(f"machine {machine} reports hashes that do not fit {tensor.name!r}")
                starts = range(0, len(tensor.leaves), _HASH_SIZE)
                leaves[tensor.name] = tuple(tensor.leaves[start : start + _HASH_SIZE] for start in starts)
        if len(leaves) != len(self._specs):
            raise WorkerDied("the machines do not report all tensors")
        first, second = self._form.states
        return _root(GLOBAL, first, leaves), _root(LOCAL, second, leaves)

    def _metrics(self, answers: Mapping[int, Held], steps: int) -> tuple[tuple[float, ...], ...]:
        """Return the metrics of each step, in the order of the job."""
        found = {metric.name: metric.values for answer in answers.values() for metric in answer.metrics}
        names = self._form.metrics
        if found.keys() != set(names) or any(len(v) != steps for v in found.values()):
            raise WorkerDied("the machines do not report each metric for each step")
        values = [[f32_number(bits) for bits in found[name]] for name in names]
        return tuple(zip(*values, strict=True)) if values else ((),) * steps


def _root(prefix: str, specs: Sequence[TensorSpec], leaves: Mapping[str, Sequence[bytes]]) -> bytes:
    """Return the root of a state (:class:`pol.state.canonical.StateTree`) from the hashes of its tensors' chunks."""
    ordered = sorted(specs, key=lambda spec: spec.name)
    return merkle_root(
        [chunk_leaf(header_chunk(specs)), *(leaf for spec in ordered for leaf in leaves[prefix + spec.name])]
    )


class Group:
    """The machines that train one slot together: members, and after a loss other members."""

    def __init__(
        self,
        directory: Path,
        form_of: FormOf,
        folder: Path,
        spec: GroupSpec,
        starter: Starter | None = None,
        reads: Sequence[Path] = (),
        check: Callable[[], None] = _go_on,
    ) -> None:
        """Plan a step of the job in ``directory`` by ``form_of``, and start the members, as processes here if
        ``starter`` is None.

        Those write into ``folder``, and read only there, in ``directory`` and in the files and folders ``reads``. If
        ``check``, which is called often during a command, raises an error, the members and the command end.
        """
        self._form_of, self.folder, self.spec = form_of, folder, spec
        self.check = check
        self._starter = starter or Processes(spec.machines)
        self._needs = Needs(
            directory=directory, folder=folder, engine=spec.engine, memory=spec.memory, reads=tuple(reads)
        )
        self._numbers = count(1)
        self._at: tuple[Path, Path] | None = None
        self._pieces: tuple[list[Path], list[Path]] | None = None
        self._own: Path | None = None
        self._roots: tuple[bytes, bytes] | None = None
        self.form: SlotForm
        """What the leader knows of the job and its plan."""
        self.losses: list[str] = []
        """Why machines were lost, one text per loss."""
        self._bytes = self._messages = self._cpu_us = 0
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self.members = self._members()
        except MachinesLost as error:
            # Machines that have never met are more often set up wrongly than lost.
            raise GroupLost(f"the machines cannot form a group: {error}") from None

    def open(
        self, global_path: Path, local_path: Path, roots: tuple[bytes, bytes] | None = None
    ) -> tuple[bytes, bytes]:
        """Begin at the states in two files that the members can read, and return their roots.

        Raises StateError if a file is not a state of the job, or if the states do not have ``roots``.
        """
        self._stand(None, (global_path, local_path), None)
        self._roots = roots
        self._again(lambda: None)
        assert self._roots is not None, "the states are open"
        return self._roots

    def run_segment(
        self,
        part: RoundSlot,
        index: int,
        on_step: OnStep | None = None,
        follow: Callable[[tuple[bytes, bytes]], None] | None = None,
    ) -> Boundary:
        """Run segment ``index`` of a share from where the group stands, and return the boundary at its end.

        ``follow`` receives the roots of both states after each step, which the members then write: if a later step
        has no result, the group stands at the last step that had one. After a loss, the machines that are left run the
        segment, or the step if there is a ``follow``. Raises NotFiniteStep and StepFailed as
        :func:`pol.work.segments.run_segment` does, RangeError if there is no such segment, and ReplayError if no
        machine is left.
        """
        form = self.form
        check_segment(form, part, index)
        begin = boundary_step(form, part.round, index)
        end = begin + form.segment_steps
        at_once = form.segment_steps if follow is None else 1
        sums = [0.0] * len(form.metrics)
        for step in range(begin, end, at_once):
            trained = self._train(part.slot, step, at_once)
            for number, values in enumerate(trained.metrics, step):
                sums = [total + value for total, value in zip(sums, values, strict=True)]
                if on_step is not None:
                    on_step(number, values[0] if values else 0.0)
            if follow is not None:
                follow(trained.roots)
        means = mean_metrics(sums, form.segment_steps)
        return Boundary(
            index=index + 1,
            step=end,
            global_root=trained.roots[0],
            local_root=trained.roots[1],
            root=boundary_root(*trained.roots, means),
            metrics=means,
        )

    def run_step(self, slot: int) -> None:
        """Run the first step of a slot in round 0 from where the group stands; errors as in :meth:`run_segment`."""
        self._train(slot, 0, 1)

    def _train(self, slot: int, begin: int, steps: int) -> Trained:
        """Run some steps; after a loss again, on the machines that are left."""

        def attempt() -> Trained:
            folder = self._new_folder()
            try:
                trained = self.members.train(slot, begin, steps, folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._stand(folder, None, (self.members.pieces(folder, "global"), self.members.pieces(folder, "local")))
            return trained

        try:
            trained = attempt()
        except MachinesLost as error:
            trained = self._again(attempt, error)
        self._roots = trained.roots
        return trained

    def states(self) -> tuple[Iterator[bytes], Iterator[bytes]]:
        """Return the canonical bytes of the global and of the local state where the group stands.

        The members may have ended.
        """
        return self._state(0), self._state(1)

    def _state(self, place: int) -> Iterator[bytes]:
        if self._pieces is not None:
            yield from merged_pieces(self._pieces[place], self.form.states[place])
        elif self._at is not None:
            with self._at[place].open("rb") as file:
                yield from iter(partial(file.read, _READ_BYTES), b"")

    def write(self, global_path: Path, local_path: Path) -> None:
        """Write the states where the group stands as whole files. The group must have run a segment."""
        if self._pieces is None:
            raise ReplayError("the group has run no segment")
        for path, pieces, specs in zip((global_path, local_path), self._pieces, self.form.states, strict=True):
            with path.open("xb") as file:
                file.writelines(merged_pieces(pieces, specs))

    @property
    def is_over(self) -> bool:
        """True if the members have ended, because a command failed."""
        return self.members.are_over

    @property
    def roots(self) -> tuple[bytes, bytes] | None:
        """The roots of both states where the group stands; None before it has opened any."""
        return self._roots

    @property
    def sent(self) -> int:
        """Number of bytes of arrays that the members have sent each other."""
        return self._bytes + self.members.sent

    @property
    def messages(self) -> int:
        """Number of messages that the members have sent each other."""
        return self._messages + self.members.messages

    @property
    def cpu_us(self) -> int:
        """Processor time of all members in microseconds."""
        return self._cpu_us + self.members.cpu_us

    def close(self) -> None:
        """End all members, and remove what they wrote."""
        self.members.close()
        self._stand(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _start(self) -> Members:
        while True:
            try:
                return self._members()
            except MachinesLost as error:
                self._lose(error)

    def _members(self) -> Members:
        self.form = self._form_of(self.spec)
        return Members(self.form, self.spec, self._starter, self._needs, self._check)

    def _check(self) -> None:
        # This changes: each request to a pool of groups has its own.
        self.check()

    def _lose(self, error: MachinesLost) -> None:
        """Go on without the machines that were lost."""
        _log.warning("a machine is lost: %s", error)
        self.losses.append(str(error))
        left = min(self.spec.machines, self._starter.lose(error.machines))
        if left < 1:
            raise GroupLost(f"no machine is left: {error}")
        shape = self.spec.shape if left == self.spec.machines else None
        self.spec = replace(self.spec, machines=left, shape=shape)

    def _again(self, attempt: Callable[[], R], lost: MachinesLost | None = None) -> R:
        """Open the last states, and make an attempt; after each loss again, with the machines that are left."""
        while True:
            try:
                if lost is not None:
                    self._bytes, self._messages, self._cpu_us = self.sent, self.messages, self.cpu_us
                    self._lose(lost)
                    self.members = self._start()
                self._open()
                return attempt()
            except MachinesLost as error:
                lost = error

    def _open(self) -> None:
        if self._at is None:
            # A new plan divides the tensors in another way, so the pieces become whole files first.
            folder = self._new_folder()
            whole = folder / "global", folder / "local"
            self.write(*whole)
            self._stand(folder, whole, None)
        assert self._at is not None, "the states are in whole files"
        found = self.members.open(*self._at)
        if self._roots is None:
            self._roots = found
        elif found != self._roots:
            raise StateError("state", "is not the state with the expected root")

    def _stand(
        self, folder: Path | None, at: tuple[Path, Path] | None, pieces: tuple[list[Path], list[Path]] | None
    ) -> None:
        """Note where the states are, and remove the group's own files of the states before."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
        self._own, self._at, self._pieces = folder, at, pieces

    def _new_folder(self) -> Path:
        folder = self.folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        return folder
