"""Cutting a program into stages: each stage has some layers of the model, with their gradients and their optimizer.

A program has no layers, but the order in which it first reads the tensors of the state shows them. Forwards, a node
belongs to the last tensor that it depends on. Backwards, it belongs to the last tensor whose update depends on it. A
node's layer is the smaller of the two. Values of one element (norms, learning rates) are small and connect everything,
so they do not count: a node that leads only to such values belongs to its operands. A node that depends on the data
alone belongs to its first reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.amount import ceil_div
from pol.job.program import Program


@dataclass(frozen=True)
class Layers:
    """The layer of each value, and of each state tensor by name.

    ``reach`` has a bit for each output that depends on a value; bit n belongs to output n in name order. ``units`` maps
    each changed tensor to the tensor whose update it serves, such as the mean of its gradients to the weight.
    """

    count: int
    of_value: tuple[int, ...]
    reach: tuple[int, ...]
    units: dict[str, str]
    of_unit: dict[str, int]


def find_layers(program: Program, batch: Sequence[str]) -> Layers:
    """Return the layers of a program. ``batch`` has the names of the inputs that hold the rows of a batch."""
    reach = _reach(program)
    order = _first_uses(program, batch)
    units = _units(program, reach, order)
    of_unit = {name: order[unit] for name, unit in units.items()}
    last = {bit: of_unit[name] for bit, name in enumerate(program.outputs) if name in of_unit}
    forwards = _forwards(program, order, units)
    layers = _layers(program, forwards, [_highest(bits, last) for bits in reach])
    return Layers(
        count=max(order.values(), default=0) + 1,
        of_value=tuple(layers),
        reach=tuple(reach),
        units=units,
        of_unit=of_unit,
    )


def _layers(program: Program, forwards: Sequence[int | None], backwards: Sequence[int | None]) -> list[int]:
    layers: list[int | None] = list(forwards[: program.first_node])
    for number, node in enumerate(program.nodes, program.first_node):
        forward, backward = forwards[number], backwards[number]
        if forward is None:
            layers.append(None)
        elif backward is None:
            layers.append(max(layer for layer in map(layers.__getitem__, node.args) if layer is not None))
        else:
            layers.append(min(forward, backward))
    first: list[int | None] = [None] * len(layers)
    for number, node in reversed(list(enumerate(program.nodes, program.first_node))):
        layer = layers[number] if layers[number] is not None else first[number]
        layers[number] = layer = layer or 0
        for arg in node.args:
            known = first[arg]
            first[arg] = layer if known is None else min(known, layer)
    return [layer if layer is not None else first[number] or 0 for number, layer in enumerate(layers)]


def _reach(program: Program) -> list[int]:
    """Return for each value the set of outputs that depend on it, through values of more than one element."""
    reach = [0] * len(program.types)
    for bit, number in enumerate(program.outputs.values()):
        reach[number] |= 1 << bit
    for offset in reversed(range(len(program.nodes))):
        number = program.first_node + offset
        if program.types[number].elements > 1:
            for arg in program.nodes[offset].args:
                reach[arg] |= reach[number]
        else:
            own = sum(1 << bit for bit, output in enumerate(program.outputs.values()) if output == number)
            for arg in program.nodes[offset].args:
                reach[arg] |= own
    return reach


def _first_uses(program: Program, batch: Sequence[str]) -> dict[str, int]:
    """Return the number of each input that is not of the batch, in the order in which nodes first read them."""
    order: dict[str, int] = {}
    for node in program.nodes:
        for arg in node.args:
            if arg < len(program.inputs) and program.types[arg].elements > 1:
                name = program.inputs[arg].name
                if name not in batch:
                    order.setdefault(name, len(order))
    return order


def _units(program: Program, reach: Sequence[int], order: dict[str, int]) -> dict[str, str]:
    """Return for each input in ``order`` the tensor to which it belongs, which is usually itself.

    A weight changes the loss, and so nearly all outputs. A tensor of which less than half as many outputs depend is
    part of an update, and belongs to the one of these outputs that changes most.
    """
    numbers = {spec.name: number for number, spec in enumerate(program.inputs)}
    most = max((reach[numbers[name]].bit_count() for name in order), default=0)
    units = {}
    for name in order:
        own = reach[numbers[name]]
        others = [other for bit, other in enumerate(program.outputs) if own >> bit & 1 and other in order]
        units[name] = name
        if 2 * own.bit_count() <= most and others:
            units[name] = min(others, key=lambda other: (-reach[numbers[other]].bit_count(), order[other], other))
    return units


def _forwards(program: Program, order: dict[str, int], units: dict[str, str]) -> list[int | None]:
    """Return the last tensor on which each value depends, or None if it depends on none."""
    last = [order[units[spec.name]] if spec.name in order else None for spec in program.inputs]
    last += [None] * len(program.constants)
    for node in program.nodes:
        last.append(max((layer for layer in map(last.__getitem__, node.args) if layer is not None), default=None))
    return last


def _highest(bits: int, last: dict[int, int]) -> int | None:
    """Return the highest layer of the outputs in a set, or None if no output of the set has a layer."""
    found: int | None = None
    while bits:
        lowest = bits & -bits
        layer = last.get(lowest.bit_length() - 1)
        if layer is not None:
            found = layer if found is None else max(found, layer)
        bits ^= lowest
    return found


def cut_layers(
    works: Sequence[int],
    states: Sequence[int],
    crossing: Sequence[int],
    speeds: Sequence[int],
    memories: Sequence[int],
    bandwidth: int,
) -> tuple[int, ...]:
    """Return the stage of each layer.

    ``works`` and ``states`` are FLOPs and bytes per layer, and ``crossing`` has the bytes that cross the cut before
    each layer. ``speeds`` and ``memories`` are those of the stages, and ``bandwidth`` is in bytes per second. The
    largest time of a stage, with the bytes that it sends and receives, becomes as small as possible. Stages whose
    states exceed their memory are avoided first.
    """
    layers, stages = len(works), min(len(speeds), len(works))
    work, state = _sums(works), _sums(states)
    best: list[list[tuple[int, int, int] | None]] = [[None] * (layers + 1) for _ in range(stages + 1)]
    best[0][0] = (0, 0, 0)
    for stage in range(1, stages + 1):
        for end in range(stage, layers + 1):
            # A longer stage has no less work and state, so the search ends at the first one that these alone rule out.
            for start in reversed(range(stage - 1, end)):
                before, found = best[stage - 1][start], best[stage][end]
                if before is None:
                    continue
                micros = ceil_div(10**6 * (work[end] - work[start]), speeds[stage - 1])
                excess = max(0, state[end] - state[start] - memories[stage - 1])
                if found is not None and (excess, micros) > found[:2]:
                    break
                sent = (crossing[start] if start else 0) + (crossing[end] if end < layers else 0)
                time = micros + ceil_div(10**6 * sent, bandwidth)
                cost = (max(before[0], excess), max(before[1], time), start)
                if found is None or cost < found:
                    best[stage][end] = cost
    result: list[int] = []
    end = layers
    for stage in range(stages, 0, -1):
        chosen = best[stage][end]
        assert chosen is not None, "there are as many layers as stages"
        result = [stage - 1] * (end - chosen[2]) + result
        end = chosen[2]
    return tuple(result)


def _sums(numbers: Sequence[int]) -> list[int]:
    sums = [0]
    for number in numbers:
        sums.append(sums[-1] + number)
    return sums
