"""Kinds of the products in a captured function: forward pass, input gradient, or weight gradient.

A step is one flat graph, so the kind of a product follows from the dependences between nodes. The step marks the
gradient of each parameter with :func:`gradient`; outputs called ``metric.…`` are the results of the forward pass.

* A product is **forward** if a metric depends on it, or if no gradient depends on it (for example, if only a buffer
  needs it).
* Otherwise it is a **weight gradient** if only gradients of parameters depend on it, and only by simple operations.
  These operations move the product's elements, sum them, add other values, or combine them with values that do not
  depend on the batch.
* Otherwise it is an **input gradient**, because other products or the batch come between the product and the gradients
  of parameters.
* A product that itself depends on gradients belongs to the formula of an optimizer. Such a product counts as a **weight
  gradient**, because it decides the weights.

A product belongs to a parameter if one of its factors is computed from the parameter without the batch. A weight
gradient also belongs to the parameters whose gradients it computes. A job may choose a precision for each parameter,
by the names of modules.

All products in the body of a repeat have the same kind, the kind of the repeat as a whole. If this kind is a weight
gradient, the body also has products for input gradients. All its products then get the larger of the two numbers of
bits for gradients.

A forward product that is computed again for the backward pass is the same node as before (see ``Emitter.product``).

If a step takes several gradients, one after another, :func:`later_weight` marks the weights at the start of the next
pass. These weights count as inputs of that pass: the nodes on which they depend are not part of its forward pass.
:func:`inner_loss` marks a loss that is not a metric.
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
"""Operations that add or join values and multiply nothing. If such an operation combines a weight gradient with values
of the batch, the result is still a weight gradient.
"""


@torch.library.custom_op("assay::gradient", mutates_args=())
def gradient(value: torch.Tensor, name: str) -> torch.Tensor:
    """Return the gradient of the parameter ``name`` unchanged; the call marks it in the graph of a job."""
    del name
    return value.clone()


@gradient.register_fake
def _(value: torch.Tensor, name: str) -> torch.Tensor:
    del name
    return torch.empty_like(value)


@torch.library.custom_op("assay::later_weight", mutates_args=())
def later_weight(value: torch.Tensor, name: str) -> torch.Tensor:
    """Return the parameter ``name`` unchanged; the call marks it as the initial value of a later pass of the step."""
    del name
    return value.clone()


@later_weight.register_fake
def _(value: torch.Tensor, name: str) -> torch.Tensor:
    del name
    return torch.empty_like(value)


@torch.library.custom_op("assay::inner_loss", mutates_args=())
def inner_loss(value: torch.Tensor) -> torch.Tensor:
    """Return a loss unchanged; the call marks it as a loss that has gradients but is not a metric."""
    return value.clone()


@inner_loss.register_fake
def _(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(value)


_MARK = torch.ops.assay.gradient.default
_LOSS = torch.ops.assay.inner_loss.default
# The mark would be removed as dead code, because no node uses its result.
has_side_effect(_LOSS)
_WEIGHT = torch.ops.assay.later_weight.default


def bits_of_products(
    graph: GraphModule,
    inputs: Iterable[str],
    outputs: Iterable[str],
    precisions: Mapping[str, Precision],
) -> dict[Node, int]:
    """Return the bits of each product of ``graph``.

    ``inputs`` and ``outputs`` name its placeholders and results, in their order. ``precisions`` maps names of modules
    to precisions. A product that belongs to parameters of several modules gets the largest of their bits.
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
    bits = {}
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
        # A body that sums gradients of weights has products of both kinds.
        both = node.target is REPEAT and kind == "weight_gradient"
        kinds = (kind, "input_gradient") if both else (kind,)
        bits[node] = max(getattr(precisions[name], kind) for name in chosen for kind in kinds)
    return bits


def _nearest(parameter: str, precisions: Mapping[str, Precision]) -> str:
    """Return the name in ``precisions`` that applies to a parameter.

    It is the parameter's own name, or the name of the innermost module around the parameter.
    """
    name = parameter
    while name and name not in precisions:
        name = name.rpartition(".")[0]
    return name


def _ancestors(nodes: list[Node], of: set[Node]) -> set[Node]:
    """Return the nodes ``of`` and all nodes of the same pass on which they depend."""
    found = set(of)
    for node in reversed(nodes):
        if node in found and node.target is not _WEIGHT:
            found.update(node.all_input_nodes)
    return found


def _descendants(nodes: list[Node], of: set[Node]) -> set[Node]:
    """Return the nodes ``of`` and all nodes of the same pass that depend on them."""
    found = set(of)
    for node in nodes:
        if node.target is not _WEIGHT and not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _weights_only(nodes: list[Node], marks: set[Node], of_batch: set[Node]) -> set[Node]:
    """Return each node that only gradients of parameters depend on, if :func:`_keeps` accepts all operations between
    the node and these gradients.
    """
    found = set(marks)
    for node in reversed(nodes):
        if node.users and all(user in found and _keeps(user, node, of_batch) for user in node.users):
            found.add(node)
    return found


def _made_of(nodes: list[Node], names: Mapping[Node, str], apart: set[Node]) -> dict[Node, frozenset[str]]:
    """Return the names of the model's tensors on which each node depends; nodes in ``apart`` are left out."""
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
    """For each node in ``of_weights``, return the names of the parameters to whose gradients the node contributes."""
    found: dict[Node, frozenset[str]] = {}
    for node in reversed(nodes):
        if node in of_weights:
            own = {str(node.args[1])} if node.target is _MARK else set()
            found[node] = frozenset(own).union(*(found.get(user, ()) for user in node.users))
    return found


def _keeps(user: Node, value: Node, of_batch: set[Node]) -> bool:
    """Return whether the result of the operation ``user`` on ``value`` is still a weight gradient.

    It is not if ``user`` is a product. If ``user`` combines ``value`` with values of the batch, ``user`` must only add
    or join.
    """
    if user.target in PRODUCTS:
        return False
    others = (other for other in user.all_input_nodes if other is not value)
    return user.target in _GATHERING or of_batch.isdisjoint(others)
