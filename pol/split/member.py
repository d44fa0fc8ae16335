"""One machine's part of a plan: the values that it has, the nodes that it computes, and what it sends and awaits.

A member is a generator of moves (:mod:`pol.split.exchanges`). It does not know how messages travel: virtual machines
(:mod:`pol.split.virtual`) and processes with sockets (:mod:`pol.machines`) both run members.

Nodes and pieces of nodes form *blocks* (:mod:`pol.split.blocks`). A block is a program of its own, and the back end
runs it. NumPy computes only the pieces that are part of an exchange, or that depend on their position in the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pol.executor.interface import Backend, Compiled
from pol.job.program import Node, Program, make_program
from pol.limits import LIMITS
from pol.ops.indices import Indices, join
from pol.split.blocks import entries_of
from pol.split.exchanges import In, Message, Moves, Out, Share, Task, compute_piece, forms_of_types, take_part
from pol.split.pieces import Divided
from pol.split.plan import WHOLE, HeldPart, Part, Plan, Run, Send, last_needs
from pol.split.rows import task_of
from pol.state.arrays import Array, array_from_bytes
from pol.values import TensorSpec

_LIMITS = replace(LIMITS, live_size=2**62, constants_size=2**40)
"""Limits of a block. The program of which it is a part was checked, and the planner looks after the memory."""
Key = tuple[int, Part]
"""A part of a value: the number of the value in the program, and the part."""
Held = dict[Key, Array]


@dataclass(frozen=True)
class _Block:
    """Nodes that a back end runs together. ``program`` has the parts ``inputs`` as its inputs, in this order.

    ``outputs`` maps each result to its name in the program. ``reshapes`` maps each result that is a reshape to the part
    in whose memory it lies. So no result is kept twice.
    """

    inputs: Sequence[Key]
    outputs: Mapping[Key, str]
    reshapes: Mapping[Key, Key]
    program: Program
    compiled: Compiled


@dataclass(frozen=True)
class _Pieces:
    """A divided node: the task, and the part of each operand at this machine."""

    run: Run
    task: Task
    place: int
    rows: Sequence[Indices]
    reads: Sequence[Key]


class Member:
    """A machine of a plan.

    ``inputs`` has the names of the inputs that it needs, and ``outputs`` those of the outputs that it returns.
    """

    def __init__(self, plan: Plan, machine: int, seed: int, backend: Backend) -> None:
        self.machine = machine
        self._plan, self._program, self._seed, self._backend = plan, plan.program, seed, backend
        self.outputs = tuple(name for name, at in plan.ends_at.items() if at == machine)
        self._roots = plan.program.memory_of()
        self._ends = {plan.program.outputs[name] for name in self.outputs}
        self._moves = self._schedule()
        self._dead = self._last_uses()
        program = plan.program
        read = self._ends.union(*map(self._uses, self._moves))
        self.inputs = tuple(spec.name for number, spec in enumerate(program.inputs) if self._starts(number, read))
        self._constants = {
            number: array_from_bytes(constant.data, constant.dtype, constant.shape, "constant")
            for number, constant in enumerate(program.constants, len(program.inputs))
            if self._starts(number, read)
        }

    def _starts(self, number: int, read: set[int]) -> bool:
        return number in read and self.machine in self._plan.starts_at(number)

    # The schedule.

    def _schedule(self) -> list[Send | _Block | _Pieces]:
        """Return what this machine does, in order. Nodes whose results nothing needs are left out."""
        needed = set(self._ends)
        done: list[Send | _Block | _Pieces] = []
        for entry in reversed(entries_of(self._plan, self.machine)):
            move: Send | _Block | _Pieces | None
            if isinstance(entry, list):
                move = self._block(entry, needed)
            else:
                move = entry if isinstance(entry, Send) else self._pieces(entry)
            if move is not None:
                needed.update(self._uses(move))
                done.append(move)
        return done[::-1]

    def _pieces(self, run: Run) -> _Pieces:
        assert run.cut is not None, "a whole node is part of a block"
        place, count = run.place(self.machine), self._plan.rows.machines
        task = task_of(self._program, run.offset, run.cut, count, self._seed)
        return _Pieces(
            run=run,
            task=task,
            place=place,
            rows=task.rows,
            reads=run.reads(self._program, self.machine),
        )

    def _block(self, runs: Sequence[Run], needed: set[int]) -> _Block | None:
        """Return the block of some nodes whose results are ``needed`` later, or None if none of them is."""
        program, first = self._program, self._program.first_node
        made = {run.makes(program, self.machine): run for run in runs}
        shared = {key: self._shared(key, made) for key in made if key[0] in needed}
        reshapes = {key: root for key, root in shared.items() if root != key}
        outputs = [key for key in made if key in shared.values()]
        wanted, kept = {*outputs, *reshapes.values()}, list[Key]()
        for key in reversed(made):
            if key in wanted:
                kept.append(key)
                wanted.update(made[key].reads(program, self.machine))
        kept.reverse()
        if not kept and not reshapes:
            return None
        read = dict.fromkeys(key for own in kept for key in made[own].reads(program, self.machine))
        used = sorted(read.keys() - set(kept), key=lambda key: (key[0], key[1].machine))
        constants = [key for key in used if len(program.inputs) <= key[0] < first and key[1] == WHOLE]
        inputs = [key for key in used if key not in constants]
        numbers = {key: number for number, key in enumerate([*inputs, *constants, *kept])}
        names = {key: _name(numbers[key]) for key in outputs}
        types = [self._plan.type_of(*key) for key in inputs]
        compiled = make_program(
            [TensorSpec(_name(number), value.dtype, value.shape) for number, value in enumerate(types)],
            [program.constants[number - len(program.inputs)] for number, _ in constants],
            [self._node(made[key], numbers) for key in kept],
            {name: numbers[key] for key, name in names.items()},
            _LIMITS,
        )
        inputs += [key for key in dict.fromkeys(reshapes.values()) if key not in numbers]
        return _Block(
            inputs=inputs,
            outputs=names,
            reshapes=reshapes,
            program=compiled,
            compiled=self._backend.compile(compiled, self._seed),
        )

    def _node(self, run: Run, numbers: Mapping[Key, int]) -> Node:
        """Return a node, or a piece of one, as it is in a block."""
        node, _, _ = self._plan.node_of(run, self.machine)
        return replace(node, args=tuple(numbers[key] for key in run.reads(self._program, self.machine)))

    def _shared(self, key: Key, made: Mapping[Key, Run]) -> Key:
        """Return the part in whose memory a result of a block lies: another result, or an operand of the block."""
        while key in made and self._roots[key[0]] != key[0]:
            key = made[key].reads(self._program, self.machine)[0]
        return key

    def _uses(self, entry: Send | _Block | _Pieces) -> set[int]:
        return {number for number, _ in self._reads(entry)}

    def _reads(self, entry: Send | _Block | _Pieces) -> Sequence[Key]:
        if isinstance(entry, Send):
            return [(entry.value, entry.part)] if entry.source == self.machine else []
        return entry.inputs if isinstance(entry, _Block) else entry.reads

    def _results(self, entry: Send | _Block | _Pieces) -> list[Key]:
        if isinstance(entry, Send):
            return [(entry.value, entry.part)]
        if isinstance(entry, _Block):
            return [*entry.outputs, *entry.reshapes]
        if entry.run.cut is not None and entry.run.cut.has_exchange:
            return [(self._program.first_node + entry.run.offset, WHOLE)]
        return [entry.run.makes(self._program, self.machine)]

    def _last_uses(self) -> list[set[Key]]:
        """Return for each entry of the schedule the parts of values that this machine does not need afterwards."""
        last: dict[HeldPart, int] = {}
        for at, entry in enumerate(self._moves):
            last.update({(self.machine, *key): at for key in (*self._reads(entry), *self._results(entry))})
        dead: list[set[Key]] = [set() for _ in self._moves]
        for (_, number, part), at in last_needs(last).items():
            if number not in self._ends:
                dead[at].add((number, part))
        return dead

    # A run.

    def run(self, inputs: Mapping[str, Array]) -> Moves[dict[str, Array]]:
        """Run the program once, and return this machine's outputs by name. ``inputs`` has the inputs that it needs.

        If the caller keeps no inputs, each is freed after its last use.
        """
        program = self._program
        numbers = {spec.name: number for number, spec in enumerate(program.inputs)}
        held: Held = {(number, WHOLE): value for number, value in self._constants.items()}
        held |= {(numbers[name], WHOLE): np.asarray(inputs[name], order="C") for name in self.inputs}
        del inputs
        for entry, dead in zip(self._moves, self._dead, strict=True):
            if isinstance(entry, _Block):
                self._compute(held, entry)
            elif isinstance(entry, _Pieces):
                yield from self._take_part(held, entry)
            elif entry.source == self.machine:
                yield Out(entry.target, (self._part(held, entry.value, entry.part),))
            else:
                (value,) = yield In(entry.source, forms_of_types([self._plan.type_of(entry.value, entry.part)]))
                held[entry.value, entry.part] = value
                del value
            for key in dead & held.keys():
                del held[key]
        return {name: self._part(held, program.outputs[name], WHOLE) for name in self.outputs}

    def _compute(self, held: Held, block: _Block) -> None:
        specs = block.program.inputs
        given = {spec.name: self._part(held, *key) for spec, key in zip(specs, block.inputs, strict=False)}
        found = block.compiled.run(given) if block.program.nodes else {}
        for key, name in block.outputs.items():
            held[key] = np.asarray(found[name])
        for key, root in block.reshapes.items():
            held[key] = self._part(held, *root).reshape(self._plan.type_of(*key).shape)

    def _take_part(self, held: Held, entry: _Pieces) -> Moves[None]:
        run, task = entry.run, entry.task
        assert run.cut is not None, "a whole node is part of a block"
        number = self._program.first_node + run.offset
        operands = [self._part(held, *key) for key in entry.reads]
        own = Share(entry.rows[entry.place], tuple(operands), self._backend.integer_sums)
        if not run.cut.has_exchange:
            with np.errstate(all="ignore"):
                held[number, Part(run.cut.result, entry.place)] = compute_piece(task, own)
            return
        # The moves of a task name the places of its machines.
        moves = take_part(task, entry.place, run.machines.index(run.owner), own, entry.rows)
        given: Message | None = None
        while True:
            try:
                with np.errstate(all="ignore"):
                    move = next(moves) if given is None else moves.send(given)
            except StopIteration as end:
                if end.value is not None:
                    held[number, WHOLE] = end.value
                return
            if isinstance(move, Out):
                given = yield Out(run.machines[move.to], move.message)
            else:
                given = yield In(run.machines[move.source], move.forms)

    def _part(self, own: Held, number: int, part: Part) -> Array:
        """Return a part of a value from what this machine has: the part, a piece of the whole, or the joined pieces."""
        found = own.get((number, part))
        if found is not None:
            return found
        whole = own.get((number, WHOLE))
        if whole is None:
            whole = self._joined(own, number)
            # A piece can be cut from the whole again, and would be in memory twice.
            for key in [key for key in own if key[0] == number]:
                del own[key]
            own[number, WHOLE] = whole
        if part.division is None:
            return whole
        return self._indices(number, part.division, part.machine).take(whole, part.division.dim)

    def _joined(self, own: Held, number: int) -> Array:
        division = self._plan.rows.division(self._program, number)
        machines = range(self._plan.rows.machines)
        if division is None or any((number, Part(division, machine)) not in own for machine in machines):
            raise LookupError(f"machine {self.machine} needs value {number}, which the plan does not send")
        pieces = [own[number, Part(division, machine)] for machine in machines]
        indices = [self._indices(number, division, machine) for machine in machines]
        return join(pieces, division.dim, indices, self._program.types[number].shape[division.dim])

    def _indices(self, number: int, division: Divided, machine: int) -> Indices:
        return division.indices(self._program.types[number], machine, self._plan.rows.machines)


def _name(number: int) -> str:
    """Return the name of a value in a block."""
    return f"v{number}"
