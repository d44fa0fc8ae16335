"""The leader's record of a job and of a plan for it, and the settings of a group.

A leader may be a daemon that holds keys, so it reads no job: an unknown consumer wrote that. A process in the sandbox
reads the job, makes the plan and returns this record (:func:`pol.machines.parts.job_form`). The record is small, and
nothing in it names a file. So a job that takes over that process spoils only its own training. This file imports no
numerical library.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Annotated

from domain.bounds import Hash, Length, Range, Size, check
from domain.errors import Refusal
from host.confines import read_confines
from host.sandbox import usable_memory
from pol.errors import ExecutionError, ReplayError
from pol.executor.names import DEFAULT_ENGINE, Engine
from pol.split.machine import LINK_SPEED, SLOT_SPEED, Machine
from pol.values import TensorSpec
from pol.work.executor import WorkerDied

PATIENCE = 600.0
"""Default of the longest time in seconds that a machine waits for another one."""
GLOBAL, LOCAL = "global.", "local."
"""The beginnings of the names of tensors in the step program."""
CLOSE, OUTER = "close", "outer"
"""The programs at the end of a round: one makes a share's update, and one the next global state."""
MACHINES_MAX = 64
"""Most machines of a group."""
_SHAPE = re.compile("([0-9]{1,2})(?:x([0-9]{1,2}))?")
_LIST_MAX = 10_000
_Number = Annotated[int, Range(0, 2**63 - 1)]
_Positive = Annotated[int, Range(1, 2**63 - 1)]
_Tensors = Annotated[tuple[TensorSpec, ...], Length(0, _LIST_MAX)]
_Machine = Annotated[int, Range(0, _LIST_MAX)]
_Machines = Annotated[tuple[_Machine, ...], Length(0, _LIST_MAX)]


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The settings of a group.

    ``machines`` is the number of machines, and ``machine`` describes each of them. ``shape`` has the numbers of stages
    and of machines per stage; if it is None, the best plan by estimate is taken. ``memory`` is a hard limit for each
    process in bytes (0 on other machines: three quarters of theirs). ``patience`` is the longest wait for another
    machine in seconds.
    """

    machines: int
    machine: Machine
    memory: int
    engine: Engine = DEFAULT_ENGINE
    shape: tuple[int, int] | None = None
    patience: float = PATIENCE


@dataclass(frozen=True, slots=True)
class FileForm:
    """The machines of the tensors of a file, in the order of its tensors.

    ``keepers`` has the machine that looks after each tensor, and ``readers`` all machines that need it.
    """

    keepers: _Machines
    readers: Annotated[tuple[_Machines, ...], Length(0, _LIST_MAX)]

    def fits(self, specs: Sequence[TensorSpec], used: Sequence[int]) -> bool:
        """Return whether each tensor has a keeper that reads it, and all machines are in ``used``."""
        return (
            len(self.keepers) == len(self.readers) == len(specs)
            and all(keeper in reading for keeper, reading in zip(self.keepers, self.readers, strict=True))
            and {machine for reading in self.readers for machine in reading} <= set(used)
        )

    def names(self, specs: Sequence[TensorSpec], machine: int) -> set[str]:
        """Return the names of the tensors that a machine needs."""
        return {spec.name for spec, reading in zip(specs, self.readers, strict=True) if machine in reading}


@dataclass(frozen=True, slots=True)
class EndForm:
    """The files of a program at the end of a round: those that it reads, and those that it writes.

    The last file that ``outer`` reads stands for the updates of all slots.
    """

    reads: Annotated[tuple[FileForm, ...], Length(2, 3)]
    writes: Annotated[tuple[FileForm, ...], Length(1, 2)]


@dataclass(frozen=True, slots=True)
class EndFile:
    """A file that a program at the end of a round reads or writes: its tensors, and their machines."""

    specs: tuple[TensorSpec, ...]
    form: FileForm


@dataclass(frozen=True, slots=True)
class SlotForm:
    """A leader's knowledge of a job and of a plan for it: numbers, hashes, and the tensors of the states.

    ``used`` are the machines that the plan uses, and ``data`` those that read rows of the data. ``files`` has the
    machines of the tensors of the global and of the local state in a step. ``has_own_states`` says whether slots begin
    with local states of their own. ``close`` and ``outer`` are the programs at the end of a round; ``close`` makes an
    update of any kind.
    """

    job_id: Hash
    rounds: _Positive
    slots: _Positive
    share_segments: _Positive
    round_steps: _Positive
    segment_steps: _Positive
    metrics: Annotated[tuple[Annotated[str, Size(0, 64)], ...], Length(0, _LIST_MAX)]
    global_tensors: _Tensors
    local_tensors: _Tensors
    has_own_states: bool
    stages: _Positive
    rows: _Positive
    parts: _Positive
    update_tensors: _Tensors
    used: Annotated[tuple[_Machine, ...], Length(1, _LIST_MAX)]
    data: _Machines
    files: Annotated[tuple[FileForm, ...], Length(2, 2)]
    close: EndForm
    outer: EndForm

    @property
    def states(self) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        """The tensors of the global state and those of the local state."""
        return self.global_tensors, self.local_tensors

    @property
    def tensors(self) -> dict[str, TensorSpec]:
        """All tensors of both states by the names that they have in the step program."""
        return named_tensors(*self.states)

    @property
    def keeper_of(self) -> dict[str, int]:
        """The machine that looks after each tensor, by the tensor's name in the step program."""
        first, second = self.files
        return dict(zip(self.tensors, (*first.keepers, *second.keepers), strict=True))

    def reads(self, program: str, number: int) -> tuple[EndFile, ...]:
        """Return the ``number`` files that a program at the end of a round reads.

        Raises ReplayError if it does not read so many.
        """
        count = 3 if program == CLOSE else 1 + self.slots
        if number != count:
            raise ReplayError(f"a round needs one update for each of {self.slots} slots, not {number - 1}")
        if program == CLOSE:
            specs = self.global_tensors, self.global_tensors, self.local_tensors
            return tuple(map(EndFile, specs, self.close.reads))
        opening, update = map(EndFile, (self.global_tensors, self.update_tensors), self.outer.reads)
        return opening, *[update] * self.slots

    def writes(self, program: str) -> tuple[EndFile, ...]:
        """Return the files that a program at the end of a round writes."""
        specs = (self.update_tensors, self.local_tensors) if program == CLOSE else (self.global_tensors,)
        return tuple(map(EndFile, specs, (self.close if program == CLOSE else self.outer).writes))


Shape = int | tuple[int, int]
"""A number of machines, or the numbers of stages and of machines per stage."""
FormOf = Callable[[GroupSpec], SlotForm]
"""A function that plans a job for a group. Raises ExecutionError if there are no such stages and rows."""


def read_shape(text: str) -> Shape:
    """Return the shape that a person wrote: a number of machines, or stages x machines per stage, such as 2x4.

    Raises ValueError if the text is anything else.
    """
    found = _SHAPE.fullmatch(text)
    stages, rows = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if not 1 <= stages * (rows or 1) <= MACHINES_MAX or rows & (rows - 1) or (found and found[2] and not rows):
        raise ValueError(f"{text!r} is not a number of machines up to {MACHINES_MAX}, such as 3, or 2x4")
    return (stages, rows) if rows else stages


def number_of(shape: Shape) -> int:
    """Return the number of machines of a shape."""
    return shape if isinstance(shape, int) else shape[0] * shape[1]


def side(shape: Shape) -> int:
    """Return how many machines of a shape certainly compute at the same time, with any job: those side by side.

    Stages take turns. If only the number of machines is given, the plan of a job may have one machine per stage.
    """
    return 1 if isinstance(shape, int) else shape[1]


def shape_of(shape: Shape) -> tuple[int, ...]:
    """Return the numbers of a shape."""
    return (shape,) if isinstance(shape, int) else shape


def check_device(engine: Engine) -> None:
    """Raise ExecutionError if ``engine`` names a GPU: a step is divided among processors only."""
    if engine.device != "cpu":
        reason = f"several machines compute a step together on cpu, not on {engine.device}; leave one of the two out"
        raise ExecutionError("device", reason)


def spec_here(machines: Shape, engine: Engine) -> GroupSpec:
    """Return how processes of this machine form a group. They share its memory and its processors.

    Raises ExecutionError if ``engine`` names a GPU, which the sandbox does not permit.
    """
    check_device(engine)
    number = number_of(machines)
    confines = read_confines()
    memory = engine.memory or usable_memory() * 3 // 4 // number
    return GroupSpec(
        machines=number,
        machine=Machine(speed=SLOT_SPEED, memory=memory, bandwidth=LINK_SPEED),
        memory=memory,
        engine=Engine(
            engine.name, engine.device, engine.threads or max(1, (confines.threads or confines.allowed) // number)
        ),
        shape=None if isinstance(machines, int) else machines,
    )


def named_tensors(first: Sequence[TensorSpec], second: Sequence[TensorSpec]) -> dict[str, TensorSpec]:
    """Return the tensors of a global and of a local state by the names that they have in the step program."""
    return {prefix + spec.name: spec for prefix, specs in ((GLOBAL, first), (LOCAL, second)) for spec in specs}


def _files(form: SlotForm) -> list[EndFile]:
    """Return all files of a form. Raises ValueError if a program reads or writes another number of files."""
    first, second = form.states
    update = form.update_tensors
    forms = form.files, form.close.reads, form.close.writes, form.outer.reads, form.outer.writes
    specs = (first, second), (first, first, second), (update, second), (first, update), (first,)
    pairs = [zip(tensors, files, strict=True) for files, tensors in zip(forms, specs, strict=True)]
    return [EndFile(*pair) for pair in chain(*pairs)]


def _fits(file: EndFile, used: Sequence[int]) -> bool:
    return file.form.fits(file.specs, used)


def checked(form: SlotForm) -> SlotForm:
    """Return a form that a process in the sandbox made. Raises WorkerDied if it is out of bounds."""
    try:
        check(form)
        fits = all(map(partial(_fits, used=form.used), _files(form))) and set(form.data) <= set(form.used)
    except (Refusal, ValueError, TypeError, AttributeError) as error:
        raise WorkerDied(f"the form of the job is out of bounds: {error}") from None
    if not fits:
        raise WorkerDied("the tensors of the job and their machines do not fit each other")
    return form
