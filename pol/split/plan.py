"""Plans: which machine computes which node of a program, and what the machines send each other.

A plan is the owner's own matter. It never reaches the chain, and its result has the bits of one machine. Machines form
*stages*, each with some layers of the model, and each stage has one or more machines, which divide the *rows* of a
batch. So a plan has S stages of W machines, with W a power of two. Further machines stay idle.

A node is in one of four places:

- It is divided into rows among the machines of its stage, with or without an exchange.
- It is whole, on one machine: the machine at which the state tensor lives that it leads to, or one of its stage.
- It does not depend on the batch, like a mask or a learning rate: each machine that needs it computes it.
- It has no split for how its operands are divided: its operands are gathered first.

A stage first computes what other stages wait for, and so the gradients of its inputs before those of its weights.

Every changed state tensor has a home, where its update is computed; its stage's machines share these tensors. Data,
unchanged tensors and the number of the step are at every machine. Planning uses integers only and is deterministic.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from pol.job.program import Node, Program
from pol.split.borders import settle
from pol.split.cuts import Cut
from pol.split.machine import Machine
from pol.split.pieces import Divided
from pol.split.rows import Rows, batch_inputs, divide_rows
from pol.split.stages import cut_layers, find_layers
from pol.values import TensorType

STATES = ("global.", "local.")
PRODUCTS = frozenset({"matmul", "matmul_windows", "repeat"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a value: the piece of one machine of a stage, or the whole if ``division`` is None."""

    division: Divided | None = None
    machine: int = 0


WHOLE = Part()


HeldPart = tuple[int, int, Part]
"""A machine, the number of a value, and the part of the value that the machine has."""


def last_needs(last: Mapping[HeldPart, int]) -> dict[HeldPart, int]:
    """Return when each part is needed last, from when it is read or made last.

    The whole of a value can serve for each part of it. All parts of one division are joined where the whole is read, or
    a part of another division.
    """
    by_division: dict[tuple[int, int], dict[Divided | None, int]] = {}
    for (machine, number, part), at in last.items():
        known = by_division.setdefault((machine, number), {})
        known[part.division] = max(at, known.get(part.division, at))
    needs = {}
    for (machine, number, part), at in last.items():
        others = by_division[machine, number].items()
        needs[machine, number, part] = max([at, *(late for division, late in others if division != part.division)])
    return needs | {(*key, WHOLE): max(known.values()) for key, known in by_division.items()}


@dataclass(frozen=True, slots=True)
class Send:
    """A machine sends a part of a value to another one."""

    value: int
    part: Part
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Run:
    """Machines compute a node: the whole on each of them, or, if ``cut`` is set, a piece each.

    If the cut has an exchange, ``owner`` is the one of ``machines`` that gets the whole result. The pieces of the
    machines follow each other, from the piece number ``first`` on.
    """

    offset: int
    machines: tuple[int, ...]
    cut: Cut | None = None
    owner: int = 0
    first: int = 0

    def place(self, machine: int) -> int:
        """Return the number of a machine's piece."""
        return self.first + self.machines.index(machine)

    @property
    def result(self) -> Divided | None:
        """The division of what each machine computes, or None if one machine or each of them gets the whole."""
        return None if self.cut is None else self.cut.result

    def reads(self, program: Program, machine: int) -> list[tuple[int, Part]]:
        """Return the numbers of the operands, with the part of each that a machine needs."""
        place, args = self.place(machine), program.nodes[self.offset].args
        divisions = [None if self.cut is None else self.cut.operand(index) for index in range(len(args))]
        return [
            (arg, WHOLE if division is None else Part(division, place))
            for arg, division in zip(args, divisions, strict=True)
        ]

    def makes(self, program: Program, machine: int) -> tuple[int, Part]:
        """Return the number of the result, with the part of it that a machine has afterwards without an exchange."""
        part = WHOLE if self.result is None else Part(self.result, self.place(machine))
        return program.first_node + self.offset, part


Action = Send | Run


@dataclass(frozen=True)
class Plan:
    """A plan: the stages, the homes of the changed state tensors, and all actions of a step in order.

    ``stages`` has the machines of each stage. ``batch`` has the names of the inputs that hold the rows of a batch.
    ``ends_at`` has the machine that returns each output. If ``parts`` is more than one, a batch goes through the stages
    in so many pieces, one after another.
    """

    program: Program
    machines: tuple[Machine, ...]
    stages: tuple[tuple[int, ...], ...]
    batch: frozenset[str]
    homes: Mapping[str, int]
    rows: Rows
    actions: tuple[Action, ...]
    ends_at: Mapping[str, int]
    parts: int = 1

    @cached_property
    def last_actions(self) -> tuple[tuple[HeldPart, ...], ...]:
        """For each action, the results that a machine has and needs no more: machine, number and part."""
        last: dict[HeldPart, int] = {}
        for at, action in enumerate(self.actions):
            last.update(dict.fromkeys(self._touched(action), at))
        ends = {(machine, self.program.outputs[name]) for name, machine in self.ends_at.items()}
        dead: list[list[HeldPart]] = [[] for _ in self.actions]
        for held, at in last_needs(last).items():
            machine, number, _ = held
            if number >= self.program.first_node and (machine, number) not in ends:
                dead[at].append(held)
        return tuple(map(tuple, dead))

    def _touched(self, action: Action) -> Iterator[HeldPart]:
        """Yield what an action reads and makes."""
        if isinstance(action, Send):
            yield from ((machine, action.value, action.part) for machine in (action.source, action.target))
            return
        for machine in action.machines:
            yield from ((machine, number, part) for number, part in action.reads(self.program, machine))
            if action.cut is None or not action.cut.has_exchange:
                yield (machine, *action.makes(self.program, machine))
        if action.cut is not None and action.cut.has_exchange:
            yield action.owner, self.program.first_node + action.offset, WHOLE

    @property
    def used(self) -> tuple[int, ...]:
        """The machines that take part."""
        return tuple(machine for stage in self.stages for machine in stage)

    def type_of(self, number: int, part: Part) -> TensorType:
        """Return the type of a part of a value."""
        value = self.program.types[number]
        return value if part.division is None else part.division.piece(value, part.machine, self.rows.machines)

    def node_of(self, run: Run, machine: int) -> tuple[Node, list[TensorType], TensorType]:
        """Return the node that a machine computes, with the types of its operands and of its result.

        A piece of a node is the same primitive on pieces of the operands. If the machines make an exchange, each of
        them makes a partial of the whole result.
        """
        node = self.program.nodes[run.offset]
        operands = [self.type_of(*read) for read in run.reads(self.program, machine)]
        result = self.type_of(*run.makes(self.program, machine))
        if run.cut is None:
            return node, operands, result
        attrs = run.cut.attrs(node, operands, result, run.place(machine), self.rows.machines)
        return replace(node, attrs=attrs), operands, result

    def starts_at(self, number: int) -> tuple[int, ...]:
        """Return the machines that have an input or a constant before the step."""
        if number < len(self.program.inputs):
            home = self.homes.get(self.program.inputs[number].name)
            if home is not None:
                return (home,)
        return self.used


def make_plan(
    program: Program,
    machines: Sequence[Machine],
    stages: int = 1,
    rows: int = 1,
    batch: Collection[str] | None = None,
    parts: int = 1,
) -> Plan:
    """Return the plan with ``stages`` stages of ``rows`` machines each.

    ``rows`` is a power of two, and there are at least ``stages`` x ``rows`` machines. If each stage has one machine, a
    batch may go through the stages in several ``parts``.
    """
    if parts < 1 or (parts > 1 and rows > 1):
        raise ValueError(f"{parts} parts cannot go through stages of {rows} machines")
    if rows < 1 or rows & (rows - 1) or stages < 1 or stages * rows > len(machines):
        raise ValueError(f"{len(machines)} machines cannot form {stages} stages of {rows}")
    named = frozenset(batch_inputs(program) if batch is None else batch)
    given = frozenset(spec.name for spec in program.inputs) - named
    return _Planner(program, machines, stages, rows, named, given, parts).plan()


def plan_end(program: Program, machines: Sequence[Machine]) -> Plan:
    """Return the plan of a program that ends a round, such as ``close`` or ``outer``, with as many stages as possible.

    It reads no batch. Each node is computed by one machine, which reads the tensors that it needs from files.
    """
    return _Planner(program, machines, len(machines), 1, frozenset(), frozenset(), 1).plan()


def sorted_nodes(program: Program, ranks: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the offsets of all nodes, each after its operands. Of those that are possible, the lowest rank is next."""
    first = program.first_node
    needs = [{arg - first for arg in node.args if arg >= first} for node in program.nodes]
    return _sorted(needs, [(*rank, offset) for offset, rank in enumerate(ranks)])


def _sorted(needs: Sequence[AbstractSet[int]], ranks: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the numbers of all tasks, each after those that it ``needs``, and else in the order of their ranks.

    The last number of a rank is that of the task.
    """
    readers: list[list[int]] = [[] for _ in needs]
    missing = []
    for task, own in enumerate(needs):
        missing.append(len(own))
        for needed in own:
            readers[needed].append(task)
    ready = [rank for rank, count in zip(ranks, missing, strict=True) if not count]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)[-1]
        order.append(task)
        for reader in readers[task]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, ranks[reader])
    return order


def shapes(machines: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers of stages and of machines per stage that ``machines`` machines may form, stages first."""
    rows = 1
    while rows <= machines:
        yield machines // rows, rows
        rows *= 2


class _Planner:
    def __init__(
        self,
        program: Program,
        machines: Sequence[Machine],
        stages: int,
        rows: int,
        batch: frozenset[str],
        given: frozenset[str],
        parts: int,
    ) -> None:
        """Prepare a plan. ``given`` has the inputs from which machines compute values wherever they are needed."""
        self._program, self._machines, self._batch, self._given = program, tuple(machines), batch, given
        layers = find_layers(program, sorted(self._batch))
        self._is_given = self._find_given()
        settled = settle(program, layers, self._find_free(), self._is_given)
        self._layers = replace(layers, of_value=tuple(settled))
        stages = min(stages, self._layers.count)
        # One stage waits for no other, so it takes the whole batch at once.
        self._count = parts if stages > 1 else 1
        self._rows = divide_rows(program, rows * self._count, self._batch, self._is_given, alone=self._count > 1)
        self._stages = tuple(tuple(range(rows * stage, rows * (stage + 1))) for stage in range(stages))
        self._stage_of_layer = self._cut()
        self._stage_of = [self._stage_of_layer[layer] for layer in self._layers.of_value]
        self._is_awaited = self._find_awaited(self._stage_of)
        if self._count > 1:
            self._rows = replace(self._rows, cuts=self._cuts_of_parts())
        self._homes = self._find_homes()
        self._owners = self._find_owners()
        self._needed = self._find_needed()
        self._actions: list[Action] = []
        self._parts: list[dict[int, set[Part]]] = [{} for _ in program.types]

    # Values that do not depend on the batch.

    def _find_given(self) -> list[bool]:
        program = self._program
        given = [spec.name in self._given for spec in program.inputs] + [True] * len(program.constants)
        for node in program.nodes:
            given.append(all(given[arg] for arg in node.args))
        return given

    def _find_free(self) -> list[bool]:
        """Return for each value whether each machine has it without what another one computes or keeps."""
        program = self._program
        alike = [spec.name not in program.outputs and spec.name in self._given for spec in program.inputs]
        alike += [True] * len(program.constants)
        for node in program.nodes:
            alike.append(all(alike[arg] for arg in node.args))
        of_batch = [spec.name in self._batch for spec in program.inputs]
        return [*map(any, zip(alike, of_batch, strict=False)), *alike[len(of_batch) :]]

    # Stages.

    def _cut(self) -> tuple[int, ...]:
        program, layers = self._program, self._layers
        works, states, crossing = ([0] * layers.count for _ in range(3))
        for offset, work in enumerate(program.works()):
            number = program.first_node + offset
            if not self._is_given[number]:
                works[layers.of_value[number]] += work.flops
        for number, spec in enumerate(program.inputs):
            if self._is_state(spec.name):
                states[layers.of_value[number]] += 2 * spec.type.size
        readers: list[set[int]] = [set() for _ in program.types]
        for offset, node in enumerate(program.nodes):
            for arg in node.args:
                readers[arg].add(layers.of_value[program.first_node + offset])
        for number, reading in enumerate(readers):
            if reading and not self._is_given[number]:
                ends = (*reading, layers.of_value[number])
                for layer in range(min(ends) + 1, max(ends) + 1):
                    crossing[layer] += program.types[number].size
        groups = [[self._machines[machine] for machine in stage] for stage in self._stages]
        return cut_layers(
            works,
            states,
            crossing,
            [sum(machine.speed for machine in group) for group in groups],
            [sum(machine.memory for machine in group) for group in groups],
            min(machine.bandwidth for group in groups for machine in group),
        )

    def _is_state(self, name: str) -> bool:
        return name.startswith(STATES) and name not in self._batch

    def _stage(self, number: int) -> tuple[int, ...]:
        return self._stages[self._stage_of_layer[self._layers.of_value[number]]]

    # Homes of the changed state tensors, and owners of whole values.

    def _find_homes(self) -> dict[str, int]:
        program, layers = self._program, self._layers
        changed = program.changed_outputs()
        sizes: dict[str, int] = {}
        for spec in program.inputs:
            if spec.name in changed:
                unit = layers.units.get(spec.name, spec.name)
                sizes[unit] = sizes.get(unit, 0) + spec.type.size
        loads = [0] * len(self._machines)
        places: dict[str, int] = {}
        for unit in sorted(sizes, key=lambda unit: (-sizes[unit], unit)):
            stage = self._stages[self._stage_of_layer[layers.of_unit.get(unit, 0)]]
            places[unit] = min(stage, key=lambda machine: (loads[machine], machine))
            loads[places[unit]] += sizes[unit]
        inputs = [spec.name for spec in program.inputs if spec.name in changed]
        return {name: places[layers.units.get(name, name)] for name in inputs}

    def _find_owners(self) -> list[int]:
        """Return for each value the machine that has it if it is whole and depends on the batch."""
        program, reach = self._program, self._layers.reach
        at_home = [0] * len(self._machines)
        for bit, name in enumerate(program.outputs):
            if name in self._homes:
                at_home[self._homes[name]] |= 1 << bit
        owners = [0] * len(program.types)
        for offset, node in enumerate(program.nodes):
            number = program.first_node + offset
            stage = self._stage(number)
            led = [m for m in stage if reach[number] and reach[number] & ~at_home[m] == 0]
            held = dict.fromkeys(stage, 0)
            for arg in node.args:
                if owners[arg] in held and self._is_whole(arg):
                    held[owners[arg]] += program.types[arg].size
            owners[number] = led[0] if led else min(stage, key=lambda machine: (-held[machine], machine))
        return owners

    def _is_whole(self, number: int) -> bool:
        return self._rows.division(self._program, number) is None and not self._is_given[number]

    # The machines at which values that do not depend on the batch are needed.

    def _find_needed(self) -> list[set[int]]:
        program = self._program
        needed: list[set[int]] = [set() for _ in program.types]
        for name, number in program.outputs.items():
            needed[number].add(self._homes.get(name, self._stages[-1][0]))
        for offset in reversed(range(len(program.nodes))):
            for group in self._groups(offset, needed[program.first_node + offset]):
                for arg in program.nodes[offset].args:
                    needed[arg].update(group)
        return needed

    def _groups(self, offset: int, needed: AbstractSet[int]) -> list[tuple[int, ...]]:
        """Return the groups of machines that compute a node. Each group makes one whole or one set of pieces.

        ``needed`` has the machines that need the result.
        """
        number = self._program.first_node + offset
        is_divided = self._rows.cuts[offset] is not None
        if not self._is_given[number]:
            return [self._stage(number) if is_divided else (self._owners[number],)]
        if is_divided:
            return [stage for stage in self._stages if not needed.isdisjoint(stage)]
        return [(machine,) for machine in sorted(needed)]

    # Actions.

    def plan(self) -> Plan:
        """Return the plan."""
        program = self._program
        made = Plan(
            program=program,
            machines=self._machines,
            stages=self._stages,
            batch=self._batch,
            homes=self._homes,
            rows=self._rows,
            actions=(),
            ends_at={},
            parts=self._count,
        )
        for number in range(program.first_node):
            for machine in made.starts_at(number):
                self._parts[number][machine] = {WHOLE}
        for offset, first in self._order_of_parts() if self._count > 1 else [(at, 0) for at in self._order()]:
            self._run(offset, first)
        ends_at = {name: self._end(name, number) for name, number in program.outputs.items()}
        return replace(made, actions=tuple(self._actions), ends_at=ends_at)

    def _order(self) -> list[int]:
        """Return the order in which nodes are computed: first those for which another stage waits.

        So a stage computes the gradients of its inputs before those of its weights, and the stage before it goes on
        meanwhile. Of the others, those of earlier stages come first, so that what they need is sent to them at once.
        The last are those that need a number of another stage, such as the norm of all gradients.
        """
        program = self._program
        if len(self._stages) == 1:
            return list(range(len(program.nodes)))
        stages, is_late = self._stage_of, self._find_late(self._stage_of)
        ranks = []
        for number in range(program.first_node, len(program.types)):
            if self._is_awaited[number]:
                ranks.append((0, stages[number], number))
            else:
                ranks.append((2, 0, number) if is_late[number] else (1, stages[number], number))
        return sorted_nodes(program, ranks)

    def _cuts_of_parts(self) -> tuple[Cut | None, ...]:
        """Return the cuts of nodes that are computed part by part, so that stages compute parts at the same time.

        They are the products, what another stage waits for, and what these need. All else is computed for the whole
        batch at once, such as the gradients of weights.
        """
        program = self._program
        cuts: list[Cut | None] = list(self._rows.cuts)
        is_read = [False] * len(program.types)
        for offset in reversed(range(len(program.nodes))):
            number, node, cut = program.first_node + offset, program.nodes[offset], cuts[offset]
            is_own = not self._is_given[number] and (self._is_awaited[number] or node.op in PRODUCTS)
            if cut is None or not (is_own or is_read[number]):
                cuts[offset] = None
                continue
            for index, arg in enumerate(node.args):
                is_read[arg] |= cut.operand(index) is not None
        return tuple(cuts)

    def _order_of_parts(self) -> list[tuple[int, int]]:
        """Return the order of all nodes and parts, as pairs of a node's offset and the number of the part.

        A part crosses from stage to stage, forwards and then backwards. If a product is ``hops`` crossings after the
        first one, its part p is for turn hops + p, and what needs no product is for turn 0. So stages compute different
        parts in the same turn. What crossed most comes first in a turn, because other stages wait for it. Gradients of
        weights come last, in the usual order.
        """
        program, first = self._program, self._program.first_node
        is_late, count = self._find_late(self._stage_of), self._count
        hops, is_heavy = [0] * len(program.types), [False] * len(program.types)
        of_node: list[list[int]] = []
        tasks: list[tuple[int, int]] = []
        needs: list[set[int]] = []
        ranks: list[tuple[int, ...]] = []
        turns: list[int] = []
        for offset, (node, cut) in enumerate(zip(program.nodes, self._rows.cuts, strict=True)):
            number = first + offset
            steps = [self._crosses(arg, number) for arg in node.args]
            hops[number] = max((hops[arg] + step for arg, step in zip(node.args, steps, strict=True)), default=0)
            is_heavy[number] = node.op in PRODUCTS or any(is_heavy[arg] for arg in node.args)
            own = list(range(len(tasks), len(tasks) + (1 if cut is None else count)))
            of_node.append(own)
            for part, task in enumerate(own):
                tasks.append((offset, part))
                needed, turn = set[int](), hops[number] + part if cut is not None and is_heavy[number] else 0
                for index, (arg, step) in enumerate(zip(node.args, steps, strict=True)):
                    if arg >= first:
                        division, all_parts = None if cut is None else cut.operand(index), of_node[arg - first]
                        is_same = division is not None and division == self._rows.division(program, arg)
                        these = [all_parts[part]] if is_same else all_parts
                        needed.update(these)
                        turn = max(turn, *(turns[other] + step for other in these))
                needs.append(needed)
                turns.append(turn)
                if cut is not None or self._is_awaited[number]:
                    ranks.append((0, turn, -hops[number], number, task))
                elif is_late[number]:
                    ranks.append((2, 0, 0, number, task))
                else:
                    ranks.append((1, self._stage_of[number], 0, number, task))
        return [tasks[task] for task in _sorted(needs, ranks)]

    def _crosses(self, arg: int, number: int) -> bool:
        """Return whether an operand of more than one element comes from another stage."""
        is_there = self._stage_of[arg] == self._stage_of[number] or self._is_given[arg]
        return not is_there and self._program.types[arg].elements > 1

    def _find_awaited(self, stages: Sequence[int]) -> list[bool]:
        """Return for each value whether another stage needs it for a product, at once or by way of other values.

        Numbers such as norms, and gradients of shared weights, lead only to updates and do not count.
        """
        program = self._program
        leads_to_product, is_awaited = ([False] * len(program.types) for _ in range(2))
        for offset in reversed(range(len(program.nodes))):
            number, node = program.first_node + offset, program.nodes[offset]
            leads_on = leads_to_product[number] or node.op in PRODUCTS
            for arg in node.args:
                leads_to_product[arg] |= leads_on and program.types[arg].elements > 1
                crosses = leads_on and stages[arg] != stages[number] and program.types[arg].elements > 1
                is_awaited[arg] |= is_awaited[number] or (crosses and not self._is_given[arg])
        return is_awaited

    def _find_late(self, stages: Sequence[int]) -> list[bool]:
        """Return for each value whether it needs a value of one element that another machine may have to send."""
        program = self._program
        is_late = [spec.name in self._homes and spec.type.elements == 1 for spec in program.inputs]
        is_late += [False] * len(program.constants)
        for number, node in enumerate(program.nodes, program.first_node):
            is_late.append(
                any(
                    is_late[arg]
                    or (stages[arg] != stages[number] and program.types[arg].elements == 1 and not self._is_given[arg])
                    for arg in node.args
                )
            )
        return is_late

    def _end(self, name: str, number: int) -> int:
        """Bring an output to the machine that returns it: its home, or else a machine that has it."""
        machine = self._homes.get(name)
        if machine is None:
            machine = self._source(number, WHOLE)
        if machine is None:
            machine = self._stages[-1][0]
        self._bring_whole(number, machine)
        return machine

    def _run(self, offset: int, first: int) -> None:
        number = self._program.first_node + offset
        cut = self._rows.cuts[offset]
        for machines in self._groups(offset, self._needed[number]):
            for place, machine in enumerate(machines, first):
                for index, arg in enumerate(self._program.nodes[offset].args):
                    division = cut.operand(index) if cut is not None else None
                    if division is None:
                        self._bring_whole(arg, machine)
                    else:
                        self._bring_piece(arg, machine, Part(division, place))
            owner = self._owners[number]
            self._actions.append(Run(offset=offset, machines=machines, cut=cut, owner=owner, first=first))
            if cut is not None and cut.has_exchange:
                self._parts[number][owner] = {WHOLE}
                continue
            for place, machine in enumerate(machines, first):
                division = None if cut is None else cut.result
                part = WHOLE if division is None else Part(division, place)
                self._parts[number].setdefault(machine, set()).add(part)

    def _bring_whole(self, number: int, machine: int) -> None:
        own = self._parts[number].setdefault(machine, set())
        if WHOLE in own:
            return
        source = self._source(number, WHOLE)
        if source is not None:
            self._actions.append(Send(value=number, part=WHOLE, source=source, target=machine))
        else:
            for part in self._some_division(number):
                if part not in own:
                    holder = self._source(number, part)
                    assert holder is not None, "all pieces of a value are somewhere"
                    self._actions.append(Send(value=number, part=part, source=holder, target=machine))
        own.add(WHOLE)

    def _bring_piece(self, number: int, machine: int, part: Part) -> None:
        own = self._parts[number].setdefault(machine, set())
        if WHOLE in own or part in own:
            return
        source = self._source(number, part)
        if source is None:
            source = self._source(number, WHOLE)
        if source is None:
            self._bring_whole(number, machine)
            return
        self._actions.append(Send(value=number, part=part, source=source, target=machine))
        own.add(part)

    def _source(self, number: int, part: Part) -> int | None:
        """Return the first machine that has a part."""
        return next((machine for machine, parts in self._parts[number].items() if part in parts), None)

    def _some_division(self, number: int) -> list[Part]:
        """Return the pieces of a value that is whole nowhere."""
        division = self._rows.division(self._program, number)
        return [Part(division, machine) for machine in range(self._rows.machines)]
