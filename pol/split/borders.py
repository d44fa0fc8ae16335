"""The least bytes that cross from one layer to the next.

Many nodes may belong to either of two neighbouring layers: those that code an activation in few bits and decode it, or
a normalisation without its weights. A minimum cut of a flow network finds where they belong, so that what crosses has
as few bytes as possible.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pol.job.program import Program
from pol.split.stages import Layers

if TYPE_CHECKING:
    import networkx as nx

STAYS, GOES = "stays", "goes"
"""The source and the sink of a flow network: a node that the cut leaves at the sink goes to the next layer."""


def settle(program: Program, layers: Layers, is_free: Sequence[bool], is_given: Sequence[bool]) -> list[int]:
    """Return the layer of each value. A node is moved to the next layer if fewer bytes cross then.

    ``is_free`` says of each value whether every machine has it, or computes it by itself, and ``is_given`` whether it
    does not depend on the batch. Nodes that read a weight of their layer, or another tensor of its state, stay, also if
    they read it in another shape. Otherwise the products of a network with small weights and large activations would
    all go to one layer. A product that is a gradient may go: for weights that two layers share, it is often smaller
    than its operands.
    """
    import networkx as nx  # only here: each validator would start with it, and few of them split a step

    settled = list(layers.of_value)
    readers: list[list[int]] = [[] for _ in program.types]
    for number, node in enumerate(program.nodes, program.first_node):
        for arg in set(node.args):
            readers[arg].append(number)
    inputs = len(program.inputs)
    states = {number for number, free in enumerate(is_free) if not free and (number < inputs or is_given[number])}
    of_layer: list[list[int]] = [[] for _ in range(layers.count)]
    for number in range(program.first_node, len(settled)):
        if not is_free[number]:
            of_layer[settled[number]].append(number)
    for layer in range(layers.count - 1):
        here = {number for number in states if settled[number] <= layer}
        movable = [
            number for number in of_layer[layer] if here.isdisjoint(program.nodes[number - program.first_node].args)
        ]
        values = dict.fromkeys(movable)
        for number in movable:
            args = program.nodes[number - program.first_node].args
            values.update(dict.fromkeys(arg for arg in args if not is_free[arg]))
        names: list[object] = [STAYS if known <= layer else GOES for known in settled]
        for number in movable:
            names[number] = number
        network = nx.DiGraph()
        network.add_nodes_from((STAYS, GOES))
        for value in values:
            _add_value(network, names, value, readers[value], program.types[value].size)
        # If several cuts are the least, this is the one that moves the fewest nodes.
        _, (_, going) = nx.minimum_cut(network, STAYS, GOES)
        moved = [number for number in movable if number in going]
        for number in moved:
            settled[number] = layer + 1
        of_layer[layer + 1] += moved
    return settled


def _add_value(network: "nx.DiGraph", names: Sequence[object], value: int, readers: Sequence[int], size: int) -> None:
    """Add a value to a flow network. It crosses once for all readers on the other side, in one direction or the other.

    An edge without a capacity is never cut.
    """
    own, onwards, back = names[value], ("onwards", value), ("back", value)
    if own != GOES:
        network.add_edge(own, onwards, capacity=size)
    if own != STAYS:
        network.add_edge(back, own, capacity=size)
    for reader in readers:
        name = names[reader]
        if own != GOES and name != STAYS:
            network.add_edge(onwards, name)
        if own != STAYS and name != GOES:
            network.add_edge(name, back)
