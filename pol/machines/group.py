"""A group of member processes that trains one slot together, and the leader's end of it.

The leader knows a form of the job (:mod:`pol.machines.form`) and the files of states. It reads no job and loads no
state, and imports no numerical library. If a member is lost, the step ends for all. The leader ends the group, and a
new group of the machines that are left begins at the last boundary, with a new plan and a new key.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self, TypeVar

from pol.errors import ReplayError, StateError
from pol.machines.form import FormOf, GroupSpec, SlotForm
from pol.machines.members import Members, Trained
from pol.machines.starters import MachinesLost, Needs, Processes, Starter
from pol.rules.commitment import boundary_root
from pol.state.merge import merged_pieces
from pol.values import TensorSpec, mean_metrics
from pol.work.places import boundary_step, check_segment
from pol.work.records import Boundary, RoundSlot

R = TypeVar("R")
_log = logging.getLogger("assay.machines")

_READ_BYTES = 1 << 20
OnStep = Callable[[int, float], None]


def _go_on() -> None:
    pass


class GroupLost(ReplayError):
    """The error of a group that has no machine left, or whose machines have never met."""


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
        self._made: list[tuple[list[Path], tuple[TensorSpec, ...]]] = []
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

    def opening_boundary(self, part: RoundSlot, roots: tuple[bytes, bytes]) -> Boundary:
        """Return boundary 0 of a share that begins with states of these roots."""
        step = boundary_step(self.form, part.round, 0)
        return Boundary(
            index=0, step=step, global_root=roots[0], local_root=roots[1], root=boundary_root(*roots), metrics=()
        )

    def run_step(self, slot: int) -> None:
        """Run the first step of a slot in round 0 from where the group stands; errors as in :meth:`run_segment`."""
        self._train(slot, 0, 1)

    def hash(self, program: str, reads: Sequence[Path]) -> tuple[bytes, ...]:
        """Return the roots of the files that a program at the end of a round reads; see :meth:`make`.

        Raises StateError if one of them is not a state with the job's tensors.
        """
        return self._without_states(lambda: self.members.hash(program, reads))

    def make(self, program: str, reads: Sequence[Path]) -> tuple[bytes, ...]:
        """Run a program at the end of a round on files, and return the roots of the states that it makes.

        ``close`` reads the global state at the beginning of a round, and both states at the share's last boundary. It
        makes the update and the slot's local state after the round. ``outer`` reads the global state at the beginning
        and the updates of all slots, and makes the next global state. No machine holds more of a file than what it
        needs. The group then stands at no states.

        Raises UpdateFailed or AggregationFailed if there is no result, and StateError if a file is not a state with the
        job's tensors. Raises ReplayError if there is not one update per slot, or no machine is left.
        """

        def attempt() -> tuple[bytes, ...]:
            folder = self._new_folder()
            try:
                roots = self.members.make(program, reads, folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._stand(folder, None, None)
            files = enumerate(self.form.writes(program))
            self._made = [(self.members.pieces(folder, str(index)), file.specs) for index, file in files]
            return roots

        return self._without_states(attempt)

    def made(self, index: int) -> Iterator[bytes]:
        """Return the canonical bytes of one of the states that the last program has made."""
        return merged_pieces(*self._made[index])

    def _train(self, slot: int, begin: int, steps: int) -> Trained:
        """Run some steps; after a loss again, on the machines that are left."""
        if self._roots is None:
            raise ReplayError("the group has opened no states")

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

        def from_states() -> R:
            self._open()
            return attempt()

        return self._repeat(from_states, lost)

    def _without_states(self, attempt: Callable[[], R]) -> R:
        """Make an attempt for which members free their states; after each loss again."""
        self._stand(None, None, None)
        self._roots = None
        return self._repeat(attempt)

    def _repeat(self, attempt: Callable[[], R], lost: MachinesLost | None = None) -> R:
        while True:
            try:
                if lost is not None:
                    self._bytes, self._messages, self._cpu_us = self.sent, self.messages, self.cpu_us
                    self._lose(lost)
                    self.members = self._start()
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
        self._own, self._at, self._pieces, self._made = folder, at, pieces, []

    def _new_folder(self) -> Path:
        folder = self.folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        return folder
