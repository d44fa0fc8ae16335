"""Which product of a traced function is what: part of the forward pass, an input gradient, or a weight gradient.

A step is one flat graph, so what a product is follows from what depends on what. The step marks each parameter's
gradient with :func:`gradient`; outputs called ``metric.…`` are what the forward pass is for.

* A product is **forward** if a metric depends on it, or no gradient does (what only a buffer needs).
* Else it is a **weight gradient** if gradients of parameters are all that follows from it, by operations that move its
  elements, add them up, add others to them, or combine them with what does not depend on the batch.
* Else, because other products or the batch come between, it is an **input gradient**.
* A product that depends on gradients belongs to an optimizer, which decides the weights: a **weight gradient**.

A product belongs to the parameters of which a factor is made without the batch, and a weight gradient to those whose
gradient it makes. Precision may be chosen apart for parameters, by the names of their modules.

All products in the body of a repeat are of one kind, that of the repeat as a whole. Where that is a weight gradient,
they have the most bits of both kinds, for a body that adds up the one has products for the other, too.

A forward product that is computed again for the backward pass is the same node as before (see ``Emitter.product``).

Where a step takes several gradients, one after another, :func:`later_weight` marks the weights that the next pass
begins with. They count as an input of it, as those of the step do: what they depend on is no part of its forward pass.
:func:`inner_loss` marks a loss that no metric is.
"""

from collections.abc import Iterable, Mapping

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import has_side_effect

from pol.capture.author.spec import Precision
from pol.capture.rules.repeat_op import REPEAT
from pol.capture.rules.window import CONVOLUTION_WEIGHT_GRADIENT
from pol.job.document import BATCH_NUMBER

_aten = torch.ops.aten
PRODUCTS = frozenset(
    {
        _aten.mm.default,
        _aten.bmm.default,
        _aten.mv.default,
        _aten.dot.default,
        _aten.vdot.default,
        _aten.convolution.default,
        CONVOLUTION_WEIGHT_GRADIENT,
        REPEAT,
    }
)
_GATHERING = frozenset({_aten.add.Tensor, _aten.cat.default})
"""Operations that put values together without changing them; a product may meet others of its batch there."""


@torch.library.custom_op("assay::gradient", mutates_args=())
def gradient(value: torch.Tensor, name: str) -> torch.Tensor:
    """The gradient of the parameter of this name, as it is: a mark in the graph of a job."""
    del name
    return value.clone()


@gradient.register_fake
def _(value: torch.Tensor, name: str) -> torch.Tensor:
    del name
    return torch.empty_like(value)


@torch.library.custom_op("assay::later_weight", mutates_args=())
def later_weight(value: torch.Tensor, name: str) -> torch.Tensor:
    """The parameter of this name as a later pass of the same step begins with it: a mark in the graph of a job."""
    del name
    return value.clone()


@later_weight.register_fake
def _(value: torch.Tensor, name: str) -> torch.Tensor:
    del name
    return torch.empty_like(value)


@torch.library.custom_op("assay::inner_loss", mutates_args=())
def inner_loss(value: torch.Tensor) -> torch.Tensor:
    """A loss that is no metric, of which gradients are taken all the same: a mark in the graph of a job."""
    return value.clone()


@inner_loss.register_fake
def _(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value)


_MARK = torch.ops.assay.gradient.default
_LOSS = torch.ops.assay.inner_loss.default
# nothing needs its result
has_side_effect(_LOSS)
_WEIGHT = torch.ops.assay.later_weight.default


def bits_of_products(
    graph: GraphModule,
    inputs: Iterable[str],
    outputs: Iterable[str],
    precisions: Mapping[str, Precision],
) -> dict[Node, int]:
    """Return the bits of each product of ``graph``, whose placeholders and results have these names, in their order.

    ``precisions`` are by the names of modules; what belongs to parameters of several takes the most bits of theirs.
    """
    nodes = list(graph.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    results = nodes[-1].args[0]
    names = dict(zip(placeholders, inputs, strict=True))
    batch = {node for node, name in names.items() if name.startswith("batch.") or name == BATCH_NUMBER}
    marks = {node for node in nodes if node.target is _MARK}
    metrics = {result for name, result in zip(outputs, results, strict=True) if name.startswith("metric.")}
    losses = metrics | {node for node in nodes if node.target is _LOSS}
    measured, derived = _ancestors(nodes, losses), _ancestors(nodes, marks)
    of_batch, of_gradients = _descendants(nodes, batch), _descendants(nodes, marks)
    of_weights = _weights_only(nodes, marks, of_batch)
    made_of = _made_of(nodes, names, of_batch | of_gradients)
    makes = _makes(nodes, of_weights)
    backward = derived - measured
    found = {}
    for node in nodes:
        if node.target not in PRODUCTS:
            continue
        owners = set().union(*(made_of.get(factor, ()) for factor in node.all_input_nodes))
        if node in of_gradients:
            kind = "weight_gradient"
        elif node in backward and node in of_weights:
            kind = "weight_gradient"
            owners |= makes[node]
        else:
            kind = "input_gradient" if node in backward else "forward"
        chosen = {_nearest(owner, precisions) for owner in owners} or {""}
        # a body that adds up gradients of weights has products of both kinds
        both = node.target is REPEAT and kind == "weight_gradient"
        kinds = (kind, "input_gradient") if both else (kind,)
        found[node] = max(getattr(precisions[name], kind) for name in chosen for kind in kinds)
    return found


def _nearest(parameter: str, precisions: Mapping[str, Precision]) -> str:
    """Return the longest of the names that is the parameter's, or that of a module around it."""
    name = parameter
    while name and name not in precisions:
        name = name.rpartition(".")[0]
    return name


def _ancestors(nodes: list[Node], of: set[Node]) -> set[Node]:
    """Return ``of`` and all that they depend on within their pass."""
    found = set(of)
    for node in reversed(nodes):
        if node in found and node.target is not _WEIGHT:
            found.update(node.all_input_nodes)
    return found


def _descendants(nodes: list[Node], of: set[Node]) -> set[Node]:
    """Return ``of`` and all that depends on them within their pass."""
    found = set(of)
    for node in nodes:
        if node.target is not _WEIGHT and not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _weights_only(nodes: list[Node], marks: set[Node], of_batch: set[Node]) -> set[Node]:
    """Return the nodes from which only gradients of parameters follow, by what weights alone decide."""
    found = set(marks)
    for node in reversed(nodes):
        if node.users and all(user in found and _keeps(user, node, of_batch) for user in node.users):
            found.add(node)
    return found


def _made_of(nodes: list[Node], names: Mapping[Node, str], apart: set[Node]) -> dict[Node, frozenset[str]]:
    """Return the tensors of the model that a node is made of, for all nodes that are not ``apart``."""
    found: dict[Node, frozenset[str]] = {}
    for node in nodes:
        if node.op == "output" or node in apart:
            continue
        if node.target is _WEIGHT:
            found[node] = frozenset({str(node.args[1])})
            continue
        prefix, _, name = names.get(node, "").partition(".")
        own = {name} if prefix == "global" else set()
        found[node] = frozenset(own).union(*(found[used] for used in node.all_input_nodes))
    return found


def _makes(nodes: list[Node], of_weights: set[Node]) -> dict[Node, frozenset[str]]:
    """Return the parameters that a node makes the gradients of, for all nodes from which nothing else follows."""
    found: dict[Node, frozenset[str]] = {}
    for node in reversed(nodes):
        if node in of_weights:
            own = {str(node.args[1])} if node.target is _MARK else set()
            found[node] = frozenset(own).union(*(found.get(user, ()) for user in node.users))
    return found


def _keeps(user: Node, value: Node, of_batch: set[Node]) -> bool:
    """Whether ``user`` makes of a value what weights alone decide."""
    if user.target in PRODUCTS:
        return False
    others = (other for other in user.all_input_nodes if other is not value)
    return user.target in _GATHERING or of_batch.isdisjoint(others)
