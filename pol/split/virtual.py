"""Virtual machines in one process, which run a plan with the reference executor and count what they send.

Each machine has values of its own, and computes and sends only these. So a run also shows that the plan sends
everything that is needed.
"""

from collections.abc import Mapping

import numpy as np

from pol.executor.numpy_backend import NumpyBackend
from pol.split.exchanges import Message, Share, Task, compute_piece, exchange
from pol.split.pieces import Division, cut, join, residue_rows
from pol.split.plan import WHOLE, Part, Plan, Run, Send
from pol.split.rows import Cut, task_of
from pol.state.arrays import Array, array_from_bytes


class VirtualMachines:
    """The machines of a plan. ``sent`` and ``received`` have the bytes of each machine in all runs, and ``messages``
    the number of messages.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan, self._seed = plan, seed
        self._loop = NumpyBackend().compile(plan.program, seed)
        self._tasks: dict[int, Task] = {}
        self.sent = [0] * len(plan.machines)
        self.received = [0] * len(plan.machines)
        self.messages = 0

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the program by name, each from a machine that has it."""
        plan, program = self._plan, self._plan.program
        held: list[dict[tuple[int, Part], Array]] = [{} for _ in plan.machines]
        start = [np.asarray(inputs[spec.name], order="C") for spec in program.inputs]
        start += [array_from_bytes(c.data, c.dtype, c.shape, "constant") for c in program.constants]
        for number, value in enumerate(start):
            for machine in plan.starts_at(number):
                held[machine][number, WHOLE] = value
        with np.errstate(all="ignore"):
            for action, dead in zip(plan.actions, plan.last_actions, strict=True):
                if isinstance(action, Send):
                    value = self._part(held[action.source], action.value, action.part)
                    held[action.target][action.value, action.part] = value
                    self._count(action.source, action.target, value.nbytes)
                else:
                    self._compute(held, action)
                for own in held:
                    for key in [key for key in own if key[0] in dead]:
                        del own[key]
        return {name: self._output(held, name, number) for name, number in program.outputs.items()}

    def _count(self, source: int, target: int, size: int) -> None:
        self.sent[source] += size
        self.received[target] += size
        self.messages += 1

    def _output(self, held: list[dict[tuple[int, Part], Array]], name: str, number: int) -> Array:
        home = self._plan.homes.get(name)
        machines = self._plan.used if home is None else (home,)
        for machine in machines:
            if (number, WHOLE) in held[machine] or self._pieces(held[machine], number) is not None:
                return self._part(held[machine], number, WHOLE)
        raise LookupError(f"no machine has the output {name}")

    def _compute(self, held: list[dict[tuple[int, Part], Array]], run: Run) -> None:
        program = self._plan.program
        number = program.first_node + run.offset
        args = program.nodes[run.offset].args
        if run.cut is None:
            for machine in run.machines:
                operands = [self._part(held[machine], arg, WHOLE) for arg in args]
                held[machine][number, WHOLE] = np.asarray(self._loop.function_of(number)(*operands))
            return
        task = self._task(run.offset, run.cut)
        shares = []
        for place, machine in enumerate(run.machines):
            divisions = [run.cut.operand(index) for index in range(len(args))]
            parts = [WHOLE if division is None else Part(division, place) for division in divisions]
            operands = [self._part(held[machine], arg, part) for arg, part in zip(args, parts, strict=True)]
            rows = residue_rows(task.way.rows, place, task.machines, task.inner)
            shares.append(Share(rows, tuple(operands)))
        if run.cut.has_exchange:

            def send(source: int, target: int, message: Message) -> None:
                size = sum(part.nbytes for part in message)
                self._count(run.machines[source], run.machines[target], size)

            owner = run.machines.index(run.owner)
            held[run.owner][number, WHOLE] = exchange(task, shares, owner, send)
            return
        for place, (machine, share) in enumerate(zip(run.machines, shares, strict=True)):
            held[machine][number, Part(run.cut.result, place)] = compute_piece(task, share)

    def _task(self, offset: int, cut: Cut) -> Task:
        if offset not in self._tasks:
            machines = self._plan.rows.machines
            self._tasks[offset] = task_of(self._plan.program, offset, cut, machines, self._seed)
        return self._tasks[offset]

    def _part(self, own: dict[tuple[int, Part], Array], number: int, part: Part) -> Array:
        """Return a part of a value from what a machine has: the part, a piece of the whole, or the joined pieces."""
        found = own.get((number, part))
        if found is not None:
            return found
        whole = own.get((number, WHOLE))
        if whole is None:
            whole = self._joined(own, number)
            own[number, WHOLE] = whole
        if part.division is None:
            return whole
        return cut(whole, part.division.dim, self._positions(number, part.division, part.machine))

    def _joined(self, own: dict[tuple[int, Part], Array], number: int) -> Array:
        division = self._pieces(own, number)
        if division is None:
            raise LookupError(
                f"a machine needs value {number} and has only {[key[1] for key in own if key[0] == number]}"
            )
        machines = range(self._plan.rows.machines)
        pieces = [own[number, Part(division, machine)] for machine in machines]
        return join(pieces, division.dim, [self._positions(number, division, machine) for machine in machines])

    def _pieces(self, own: dict[tuple[int, Part], Array], number: int) -> Division | None:
        """Return the division of which a machine has all pieces, if there is one."""
        division = self._plan.rows.division(self._plan.program, number)
        machines = range(self._plan.rows.machines)
        if division is None or any((number, Part(division, machine)) not in own for machine in machines):
            return None
        return division

    def _positions(self, number: int, division: Division, machine: int) -> Array:
        return division.positions(self._plan.program.types[number], machine, self._plan.rows.machines)
