"""The cost of a plan, from its program alone: bytes and messages per step, and memory and work per machine.

Virtual machines count the same bytes (``pol/split/virtual.py``), and tests compare both. The time of a step is an
estimate. Each machine has a clock, and follows the plan's actions in order. It computes at its speed, a message keeps
both of its machines busy for its bytes, and the receiver waits for the sender.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.amount import ceil_div
from domain.readable import Readable
from pol.job.program import Program
from pol.ops.table import PRIMITIVES
from pol.split.cuts import Cut
from pol.split.exchanges import COLLECTIVES
from pol.split.machine import Machine
from pol.split.plan import WHOLE, Part, Plan, Run, Send, make_plan, shapes
from pol.split.rows import task_of

LIBRARIES_SIZE: Final = 96 * 2**20
"""Bytes that a process needs for the interpreter and its libraries before it trains."""


@dataclass(frozen=True, slots=True)
class MachineCost(Readable):
    """The cost of one machine in a step.

    - ``work``: FLOPs.
    - ``sent``, ``received``: bytes.
    - ``memory``: bytes that a process needs. The measured peak is within a factor of 1.3.
    - ``waiting``: estimated microseconds in which it waits for other machines.
    """

    work: int
    sent: int
    received: int
    memory: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Traffic(Readable):
    """Messages of one kind in a step, and their bytes."""

    messages: int = 0
    bytes: int = 0

    def plus(self, size: int) -> "Traffic":
        """Return the traffic with one more message."""
        return Traffic(self.messages + 1, self.bytes + size)


@dataclass(frozen=True, slots=True)
class PlanCost(Readable):
    """The cost of a plan in a step.

    - ``machines``: the cost of each machine.
    - ``traffic``: messages and bytes by kind. A kind is an exchange; or ``weights``, state tensors that machines need
      besides their home; or ``stages``, values that cross from a stage to another; or ``rows``, other values.
    - ``microseconds``: the estimated time of a step.
    """

    machines: tuple[MachineCost, ...]
    traffic: dict[str, Traffic]
    microseconds: int

    @property
    def bytes(self) -> int:
        """All bytes that cross between machines in a step."""
        return sum(kind.bytes for kind in self.traffic.values())

    @property
    def messages(self) -> int:
        """All messages between machines in a step."""
        return sum(kind.messages for kind in self.traffic.values())


def cost_of(plan: Plan) -> PlanCost:
    """Return the cost of a plan."""
    return _Counter(plan).cost()


PARTS: Final = (1, 2, 4)
"""Numbers of parts in which a batch may go through stages of one machine."""


def best_plan(program: Program, machines: Sequence[Machine], shape: tuple[int, int] | None = None) -> Plan:
    """Return the plan that fits the machines' memories and is the fastest by estimate (see :func:`rank`).

    With a ``shape``, it has so many stages and machines per stage. Raises ValueError if there is no such plan.
    """
    plans = [
        make_plan(program, machines, stages, rows, parts=parts)
        for stages, rows in (shapes(len(machines)) if shape is None else (shape,))
        for parts in (PARTS if rows == 1 < stages else PARTS[:1])
    ]
    return min(plans, key=lambda plan: rank(cost_of(plan), machines))


def rank(cost: PlanCost, machines: Sequence[Machine]) -> tuple[int, int, int]:
    """Return the rank of a plan with this cost, the lowest for the best plan.

    The least excess over a machine's memory comes first, then the estimated time, then the bytes.
    """
    over = [own.memory - machine.memory for own, machine in zip(cost.machines, machines, strict=True)]
    return max(0, *over), cost.microseconds, cost.bytes


class _Counter:
    def __init__(self, plan: Plan) -> None:
        self._plan, self._program = plan, plan.program
        count = len(plan.machines)
        self._stage_of = {machine: stage for stage, group in enumerate(plan.stages) for machine in group}
        self._work, self._sent, self._received = ([0] * count for _ in range(3))
        self._traffic: dict[str, Traffic] = {}
        self._memory = [_Memory(plan, machine) for machine in range(count)]
        self._clocks = _Clocks(plan.machines)

    def cost(self) -> PlanCost:
        """Return the cost of the plan."""
        plan = self._plan
        for action, dead in zip(plan.actions, plan.last_actions, strict=True):
            if isinstance(action, Send):
                self._send(action)
            else:
                self._run(action)
            for machine, number, part in dead:
                self._memory[machine].free(number, part)
        total = self._clocks.total
        waiting = [(total - busy) // 1_000 if machine in plan.used else 0 for machine, busy in self._clocks.busy()]
        machines = tuple(map(MachineCost, self._work, self._sent, self._received, self._sizes(), waiting))
        return PlanCost(machines, dict(sorted(self._traffic.items())), ceil_div(total, 1_000))

    def _sizes(self) -> list[int]:
        used = self._plan.used
        return [memory.size() if machine in used else 0 for machine, memory in enumerate(self._memory)]

    def _count(self, kind: str, source: int, target: int, size: int) -> None:
        self._traffic[kind] = self._traffic.get(kind, Traffic()).plus(size)
        self._sent[source] += size
        self._received[target] += size
        self._clocks.send(source, target, size)

    def _send(self, send: Send) -> None:
        size = self._plan.type_of(send.value, send.part).size
        if send.value < len(self._program.inputs):
            kind = "weights"
        elif self._stage_of[send.source] != self._stage_of[send.target]:
            kind = "stages"
        else:
            kind = "rows"
        self._count(kind, send.source, send.target, size)
        self._memory[send.source].read(send.value, send.part)
        self._memory[send.target].add(send.value, send.part, size)

    def _run(self, run: Run) -> None:
        program = self._program
        number = program.first_node + run.offset
        for machine in run.machines:
            node, operands, made = self._plan.node_of(run, machine)
            row = PRIMITIVES[node.op]
            work = row.work(operands, node.attrs, made).flops
            self._work[machine] += work
            self._clocks.compute(machine, work)
            for arg, part in run.reads(program, machine):
                self._memory[machine].read(arg, part)
            self._memory[machine].need(made.size + row.scratch_size(operands, node.attrs, made))
            if run.cut is None or not run.cut.has_exchange:
                self._memory[machine].add(*run.makes(program, machine), made.size)
        if run.cut is not None and run.cut.has_exchange:
            self._exchange(run, run.cut)
            self._memory[run.owner].add(number, WHOLE, program.types[number].size)

    def _exchange(self, run: Run, cut: Cut) -> None:
        task = task_of(self._program, run.offset, cut, len(run.machines))
        collective = COLLECTIVES[cut.split.exchange]
        kind = cut.split.exchange.name.lower()
        for machine in run.machines:
            if machine == run.owner:
                continue
            pieces = [self._plan.type_of(*read) for read in run.reads(self._program, machine)]
            if collective.claim is not None:
                self._count(kind, machine, run.owner, collective.claim_size(task))
                self._count(kind, run.owner, machine, collective.claim_size(task))
            size = collective.partial_size(task, pieces)
            self._count(kind, machine, run.owner, size)
            self._memory[machine].need(size)
            self._memory[run.owner].need(len(run.machines) * size)


class _Clocks:
    """The time of each machine in a step (nanoseconds), and how much of it the machine was busy."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._now = [0] * len(machines)
        self._busy = [0] * len(machines)

    @property
    def total(self) -> int:
        """The time at which the last machine ends."""
        return max(self._now)

    def busy(self) -> list[tuple[int, int]]:
        """Return each machine and the time in which it was busy."""
        return list(enumerate(self._busy))

    def compute(self, machine: int, work: int) -> None:
        """Let a machine compute."""
        self._spend(machine, 10**9 * work // self._machines[machine].speed)

    def send(self, source: int, target: int, size: int) -> None:
        """Let a machine send, and another one wait for the message."""
        time = 10**9 * size // min(self._machines[source].bandwidth, self._machines[target].bandwidth)
        self._now[target] = max(self._now[target], self._now[source])
        self._spend(source, time)
        self._spend(target, time)

    def _spend(self, machine: int, time: int) -> None:
        self._now[machine] += time
        self._busy[machine] += time


class _Memory:
    """The values of one machine in the course of a step. Values that share memory count once."""

    def __init__(self, plan: Plan, machine: int) -> None:
        program = plan.program
        self._program, self._machine = program, machine
        self._roots = program.memory_of()
        self._at_start = {n for n in range(program.first_node) if machine in plan.starts_at(n)}
        self._read: set[int] = set()
        # The values that share the memory of a root, of the whole (-1) or of a piece.
        self._live: dict[tuple[int, int], set[tuple[int, Part]]] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._places = (-1, *range(plan.rows.machines))
        self._now = self._peak = 0

    def add(self, number: int, part: Part, size: int) -> None:
        """Add a part of a value."""
        key = (self._roots[number], -1 if part.division is None else part.machine)
        users = self._live.setdefault(key, set())
        if not users and self._roots[number] not in self._at_start:
            self._sizes[key] = size
            self._now += size
        users.add((number, part))
        self._peak = max(self._peak, self._now)

    def read(self, number: int, part: Part) -> None:
        """Note that a value is read. A machine that has only pieces of a whole value joins them."""
        self._read.add(number)
        if part == WHOLE and number not in self._at_start:
            self.add(number, part, self._program.types[number].size)
            self._free(number, self._places[1:])

    def need(self, size: int) -> None:
        """Note that a node needs so many bytes besides the values."""
        self._peak = max(self._peak, self._now + size)

    def free(self, number: int, part: Part) -> None:
        """Free a part of a value."""
        self._free(number, [part.machine if part.division is not None else -1])

    def _free(self, number: int, places: Sequence[int]) -> None:
        for place in places:
            key = (self._roots[number], place)
            users = self._live.get(key, set())
            gone = {user for user in users if user[0] == number}
            if gone and gone == users:
                self._now -= self._sizes.pop(key, 0)
            users -= gone

    def size(self) -> int:
        """Return the memory of a process: its libraries, its inputs, and the largest sum of its values."""
        inputs = sum(self._program.types[number].size for number in self._read & self._at_start)
        return LIBRARIES_SIZE + inputs + self._peak
