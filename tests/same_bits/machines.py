"""``--machines 1,2,3,4``: a job whose steps several machines compute together, and the same job on one machine.

Most machines are virtual and in one process (``pol/split/virtual.py``). Each job is divided in every way that a number
of machines allows: by stages, by rows, by both. In some rows a machine is lost in mid-step. Then the others make a new
plan, and compute the step again from the state before it.

In the last rows the machines are processes with sockets, as ``assay job run --machines`` starts them. In some of these
rows, one of them is killed while it runs a segment, and in some they meet over TCP as the nodes of a cluster do.
"""

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch

from assay import JobSpec
from domain.errors import Expected
from examples import char_gpt, lstm, vision
from pol.capture.build import build
from pol.executor.interface import Compiled, nothing_reads
from pol.executor.numpy_backend import NumpyBackend
from pol.job.program import Program
from pol.local.groups import training_together
from pol.machines.group import Group
from pol.machines.messages import Train, send
from pol.machines.starters import Hosts
from pol.machines.stream import Stream
from pol.ops.product import integer_sums
from pol.split.exchanges import Message
from pol.split.machine import Machine
from pol.split.plan import Plan, make_plan, shapes
from pol.split.rows import batch_inputs
from pol.split.virtual import VirtualLinks, VirtualMachines
from pol.state.arrays import Array, canonical_array
from pol.state.held import Held, on_host
from tests.same_bits.run import train_here
from tests.support.places import start_over_tcp

MACHINE = Machine(speed=10**9, memory=2**33, bandwidth=125_000_000)
_LOST_AT = 12
"""The message of the first step at which a machine is lost, counted among those that it sends and gets."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class MachineRow:
    """A job on ``stages`` stages of ``rows`` machines each. ``lost`` is true if one of them is lost.

    ``real`` is true if the machines are processes, and ``tcp`` if these meet over TCP as on several machines.
    """

    job: str
    machines: int
    stages: int
    rows: int
    lost: bool = False
    real: bool = False
    tcp: bool = False

    @property
    def name(self) -> str:
        """The job, the shape, whether the machines are processes, and what is lost."""
        shape = f"{self.job}-{self.machines}-{self.stages}x{self.rows}"
        return f"{shape}{'-real' if self.real else ''}{'-tcp' if self.tcp else ''}{'-lost' if self.lost else ''}"


@dataclass(frozen=True)
class MachineOutcome:
    """The hashes of a row's two models, and the bytes and exchanges that crossed between machines."""

    row: MachineRow
    local_sha256: str
    machines_sha256: str
    bytes: int = 0
    messages: int = 0
    error: str = ""

    @property
    def same(self) -> bool:
        """Tell whether the row shows what it is there for."""
        return not self.error and self.local_sha256 == self.machines_sha256 != ""

    def as_json(self) -> dict[str, object]:
        """Return the outcome as a JSON object."""
        return {
            "name": self.row.name,
            "job": self.row.job,
            "machines": self.row.machines,
            "stages": self.row.stages,
            "rows": self.row.rows,
            "lost": self.row.lost,
            "real": self.row.real,
            "tcp": self.row.tcp,
            "bytes": self.bytes,
            "messages": self.messages,
            "local_sha256": self.local_sha256,
            "machines_sha256": self.machines_sha256,
            "same": self.same,
            "error": self.error,
        }


def _lora() -> JobSpec:
    from peft import LoraConfig, get_peft_model

    whole = char_gpt.job()
    config = LoraConfig(r=4, lora_alpha=8, target_modules=["project", "think.0"])
    return replace(whole, name="lora", model=get_peft_model(whole.model, config))


class _Recurrent(torch.nn.Module):
    """The layer of LSTM cells of torch, which is one loop in a program, and scores of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = torch.nn.LSTM(lstm.COLUMNS, lstm.WIDTH, batch_first=True)
        self.score = torch.nn.Linear(lstm.WIDTH, lstm.CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.score(self.cells(images)[0][:, -1])
        return scores


def _recurrent() -> JobSpec:
    return replace(lstm.job(), name="recurrent", model=_Recurrent())


JOBS: Mapping[str, Callable[[], JobSpec]] = {
    "char-gpt": char_gpt.job,
    "resnet": vision.job,
    "lstm": lstm.job,
    "recurrent": _recurrent,
    "lora": _lora,
}
"""The jobs by name."""


_REAL = (
    MachineRow("char-gpt", 2, 2, 1, real=True),
    MachineRow("lstm", 2, 1, 2, real=True),
    MachineRow("recurrent", 2, 1, 2, real=True),
    MachineRow("lora", 3, 3, 1, lost=True, real=True),
    MachineRow("resnet", 4, 2, 2, real=True),
    MachineRow("char-gpt", 4, 1, 4, lost=True, real=True),
    MachineRow("lora", 2, 1, 2, real=True, tcp=True),
    MachineRow("char-gpt", 3, 3, 1, lost=True, real=True, tcp=True),
)
"""Rows whose machines are processes."""


def machine_rows(counts: Collection[int]) -> list[MachineRow]:
    """Return the rows for these numbers of machines."""
    rows = [
        MachineRow(job, machines, stages, rows)
        for job in JOBS
        for machines in counts
        for stages, rows in shapes(machines)
    ]
    lost = [replace(row, lost=True) for row in rows if row.stages * row.rows == max(counts) > 1 and row.rows > 1]
    return rows + lost + [row for row in _REAL if row.machines in counts]


def short_spec(job: str) -> JobSpec:
    """Return a job that trains within seconds. Its batch does not divide by four."""
    return replace(JOBS[job](), steps=4, round_steps=2, segment_steps=1, batch=6, slots=1)


def run_machine_rows(rows: Sequence[MachineRow], tell: Tell) -> Iterator[MachineOutcome]:
    """Run rows one after another; ``tell`` hears how it goes."""
    with TemporaryDirectory(prefix="assay-same-bits-") as folder:
        local: dict[str, str] = {}
        for number, row in enumerate(rows, 1):
            job = Path(folder) / row.job
            if row.job not in local:
                tell(f"building {row.job}")
                build(short_spec(row.job), job, check=False)
                local[row.job] = train_here(job, Path(folder) / f"{row.job}-local")
            tell(f"{number} of {len(rows)}, {row.name}")
            run = _run_real if row.real else _run_row
            yield run(row, job, local[row.job], Path(folder) / row.name)


def _run_row(row: MachineRow, job: Path, local: str, out: Path) -> MachineOutcome:
    backend = MachinesBackend(row)
    try:
        with patch("pol.local.run.backend", lambda engine: backend):
            found = train_here(job, out)
    except (AssertionError, Expected, LookupError) as error:
        return MachineOutcome(row, local, "", error=str(error))
    missing = "no machine was lost" if row.lost and not backend.is_lost else ""
    return MachineOutcome(row, local, found, backend.bytes, backend.messages, missing)


def _run_real(row: MachineRow, job: Path, local: str, out: Path) -> MachineOutcome:
    """Train on processes. The last of them is killed while it runs the second segment."""
    groups: list[Group] = []
    begun = 0

    def watch(group: Group) -> None:
        nonlocal begun
        groups[:] = [group]
        begun += 1
        if row.lost and begun == 2:
            _kill_in_mid_step(group)

    start = patch("pol.local.run.start_here", start_over_tcp) if row.tcp else nullcontext()
    together = patch("pol.local.run.training_together", partial(training_together, watch=watch))
    try:
        with start, together:
            found = train_here(job, out, (row.stages, row.rows))
    except (AssertionError, Expected, LookupError) as error:
        return MachineOutcome(row, local, "", error=str(error))
    (group,) = groups
    missing = "no machine was lost" if row.lost and len(group.losses) != 1 else ""
    if row.tcp != isinstance(group._starter, Hosts):
        missing = "the machines have not met over TCP"
    return MachineOutcome(row, local, found, group.sent, group.messages, missing)


def _kill_in_mid_step(group: Group) -> None:
    """Kill the last member as soon as the command to run the segment was sent to it.

    It needs many more milliseconds for a step, so it cannot have ended the segment.
    """
    machine, process = max(group.members.pids.items())

    def send_and_kill(stream: Stream, record: object, deadline: float) -> None:
        send(stream, record, deadline)
        if isinstance(record, Train) and stream.name == f"machine {machine}":
            os.kill(process, signal.SIGKILL)
            stop.stop()

    stop = patch("pol.machines.process.send", send_and_kill)
    stop.start()


class _MachineLost(Exception):
    """A machine is gone in the middle of a step."""


class _Losing(VirtualLinks):
    """Links of machines of which the last is lost in the middle of a step."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(len(plan.machines))
        self._last, self._left = plan.used[-1], _LOST_AT

    def deliver(self, source: int, target: int, message: Message) -> None:
        """Lose the last machine when it sends or is sent its message number ``_LOST_AT``."""
        self._left -= self._last in (source, target)
        if not self._left:
            raise _MachineLost
        super().deliver(source, target, message)


class MachinesBackend:
    """A back end whose machines compute the programs that read a batch together."""

    name = "numpy"
    integer_sums = staticmethod(integer_sums)

    def __init__(self, row: MachineRow) -> None:
        self.row = row
        self.is_lost = False
        self.bytes = self.messages = 0
        self._alone = NumpyBackend()
        self._compiled: dict[int, _OnMachines] = {}

    def compile(self, program: Program, seed: int) -> Compiled:
        """Return the program for the machines, or for one if it reads no batch."""
        if not batch_inputs(program):
            return self._alone.compile(program, seed)
        return self._compiled.setdefault(id(program), _OnMachines(self, program, seed))


class _OnMachines:
    def __init__(self, backend: MachinesBackend, program: Program, seed: int) -> None:
        self._backend, self._program, self._seed = backend, program, seed
        is_step = any(name.startswith("global.") for name in program.outputs)
        plan = self._plan(backend.row.stages, backend.row.rows)
        self._machines = VirtualMachines(plan, seed, _Losing(plan) if backend.row.lost and is_step else None)

    def _plan(self, stages: int, rows: int) -> Plan:
        return make_plan(self._program, [MACHINE] * self._backend.row.machines, stages, rows)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs; after a loss, those of a new plan for the machines that are left."""
        links = self._machines.links
        before = sum(links.sent), links.messages
        try:
            outputs = self._machines.run(inputs)
        except _MachineLost:
            self._backend.is_lost = True
            *_, (stages, rows) = shapes(self._backend.row.machines - 1)
            self._machines = VirtualMachines(self._plan(stages, rows), self._seed)
            return self.run(inputs)
        self._backend.bytes += sum(links.sent) - before[0]
        self._backend.messages += links.messages - before[1]
        return outputs

    def canonical(
        self,
        inputs: Mapping[str, Held],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        """Return the outputs in canonical form. No input is overwritten."""
        arrays = {name: on_host(value) for name, value in inputs.items()}
        return {name: canonical_array(value, name) for name, value in self.run(arrays).items()}
