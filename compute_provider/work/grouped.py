"""Training of a share by several machines of the owner together, segment by segment.

The daemon leads the group (:mod:`pol.machines.group`): it knows a form of the job and the files of states. Processes in
the sandbox read the job, and compute whatever needs whole tensors.
"""

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, Final

from pol.errors import ExecutionError, JobError, ReplayError, StateError, StepFailed, Stopped
from pol.machines.form import GroupSpec, SlotForm, checked
from pol.machines.parts import job_form, write_own_state
from pol.machines.pool import GroupPool, Hosting
from pol.rules.commitment import boundary_root
from pol.values import f32_bits
from pol.work.places import boundary_step
from pol.work.records import Boundary
from pol.work.shares import SegmentEnd, SegmentTask

FORM_SECONDS: Final = 120.0
"""Longest time (s) in which a process reads a job and plans it, or writes a state."""
Ask = Callable[..., Any]
"""A function that lets a process in the sandbox call another one with some arguments, and with a ``timeout``."""


class GroupTrainer:
    """The groups of a provider. Each trains one segment at a time."""

    def __init__(self, hosting: Hosting, ask: Ask, folder: Path, reads: Sequence[Path]) -> None:
        """Train on the machines of ``hosting``, in ``folder``. ``ask`` runs tasks.

        Machines that are processes here can also read the folders ``reads``.
        """
        self._ask = ask
        self._numbers = count()
        self._scratch = folder / "states"
        self.pool = GroupPool(hosting, self._form, folder / "groups", (*reads, self._scratch))
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(mode=0o700)

    def train(self, task: SegmentTask, roots: tuple[bytes, bytes], ends: float, stop: Event) -> SegmentEnd:
        """Train a segment from the states with these roots, and write the states at its end.

        The result is that of :func:`pol.work.shares.train_segment`. Raises PoolError if the machines fail, or if they
        have no time before ``ends`` or ``stop``.
        """
        boundaries: list[Boundary] = []
        losses: list[int] = []
        try:
            with self.pool.group(task.job, roots, ends, stop) as group:
                states = task.global_in, task.local_in
                if group.roots != roots:
                    group.open(*states, roots)
                if task.segment == 0:
                    step = boundary_step(group.form, task.part.round, 0)
                    boundaries.append(
                        Boundary(
                            index=0,
                            step=step,
                            global_root=roots[0],
                            local_root=roots[1],
                            root=boundary_root(*roots),
                            metrics=(),
                        )
                    )
                    if task.part.round == 0 and group.form.has_own_states:
                        self._open_own(group.open, task)
                end = group.run_segment(task.part, task.segment, lambda _, loss: losses.append(f32_bits(loss)))
                group.write(task.global_out, task.local_out)
                boundaries.append(end)
        except Stopped as stopped:
            step = stopped.step if isinstance(stopped, StepFailed) else -1
            return SegmentEnd(tuple(boundaries), tuple(losses), stopped=str(stopped), stop_step=step)
        except (JobError, StateError, ExecutionError, ReplayError) as error:
            return SegmentEnd(refused=str(error))
        return SegmentEnd(tuple(boundaries), tuple(losses))

    def close(self) -> None:
        """End all groups."""
        self.pool.close()

    def _form(self, job: Path, spec: GroupSpec) -> SlotForm:
        return checked(self._ask(job_form, job, spec, timeout=FORM_SECONDS))

    def _open_own(self, open_states: Callable[[Path, Path], object], task: SegmentTask) -> None:
        """Open the local state of its own with which a slot begins, if it has one."""
        own = self._scratch / f"{next(self._numbers)}.local"
        try:
            if self._ask(write_own_state, task.job, task.part.slot, own, timeout=FORM_SECONDS):
                open_states(task.global_in, own)
        finally:
            own.unlink(missing_ok=True)
