"""Capture of a Python function over tensors as a checked program of primitives (``make_fx`` and the rules)."""

import logging
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributions import Distribution
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from domain.errors import Expected
from pol.capture.author.spec import Precision
from pol.capture.constants.known import COUNTS, KnownValues
from pol.capture.constants.sparse import Dense
from pol.capture.graph.folding import Folding
from pol.capture.graph.garbage import collected_later
from pol.capture.graph.precision import bits_of_products
from pol.capture.graph.reruns import rerun_of
from pol.capture.program.emitter import Emitter
from pol.capture.reports.origin import CallSites, begins_with, place_of_error, place_of_node
from pol.capture.reports.reasons import VALUES, called, in_words
from pol.capture.rewrites import decompositions
from pol.capture.rules import elementwise as rules_elementwise
from pol.capture.rules import functions as rules_functions
from pol.capture.rules import index as rules_index
from pol.capture.rules import order as rules_order
from pol.capture.rules import reduce as rules_reduce
from pol.capture.rules import repeat as rules_repeat
from pol.capture.rules import shape as rules_shape
from pol.capture.rules import strided as rules_strided
from pol.capture.rules import window as rules_window
from pol.capture.rules.registry import RULES, CaptureSite, Ref, Unsupported, dtype_of
from pol.errors import JobError
from pol.job.program import Program
from pol.limits import LIMITS, Limits
from pol.names import input_name
from pol.ops.product import DEFAULT_BITS

Tensors = Mapping[str, torch.Tensor]
Function = Callable[[Tensors], Tensors]

HANDLER_MODULES = (
    rules_elementwise,
    rules_functions,
    rules_index,
    rules_order,
    rules_reduce,
    rules_repeat,
    rules_shape,
    rules_strided,
    rules_window,
)
"""Modules that are imported because they register handlers."""
ORDINARY = MappingProxyType({"": Precision()})
NOTHING: Tensors = {}
_NOISY = logging.getLogger("torch._subclasses.fake_tensor")
"""Logger of torch that prints the stack of each error during a capture; a JobError reports the error instead."""
_KEEP = "register the tensor as a buffer, self.register_buffer('state', x), or carry it through assay.repeat"
_OF_VALUES = frozenset((VALUES, *COUNTS.values()))
_OF_PACKAGES = (
    "it can be captured if its labels and masks are known when the job is built, as torch.arange(n) is; "
    'otherwise write that part in your own file with torch.where and masks (docs/jobs.md, "Models of others")'
)
"""Remedy for a package whose code depends on the values of tensors."""
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Python types of torch's symbolic numbers, whose values are unknown during a capture."""
_aten = torch.ops.aten
_DECOMPOSED = (
    _aten._log_softmax,
    _aten._log_softmax_backward_data,
    _aten._safe_softmax,
    _aten._softmax,
    _aten._softmax_backward_data,
    _aten.addmm,
    _aten.baddbmm,
    _aten.elu,
    _aten.elu_backward,
    _aten.gelu,
    _aten.gelu_backward,
    _aten.hardsigmoid,
    _aten.hardsigmoid_backward,
    _aten.hardswish,
    _aten.hardswish_backward,
    _aten.leaky_relu,
    _aten.leaky_relu_backward,
    _aten.linalg_vector_norm,
    _aten.log_sigmoid_backward,
    _aten.log_sigmoid_forward,
    _aten.mish,
    _aten._native_batch_norm_legit,
    _aten.native_batch_norm,
    _aten.native_batch_norm_backward,
    _aten.native_group_norm,
    _aten.native_group_norm_backward,
    _aten.native_layer_norm,
    _aten.native_layer_norm_backward,
    _aten.nll_loss_backward,
    _aten.nll_loss_forward,
    _aten.silu,
    _aten.silu_backward,
    _aten.std.correction,
    _aten.threshold_backward,
    _aten.var_mean,
)


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    table = {**core_aten_decompositions(), **get_decompositions(_DECOMPOSED)}
    for name in ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"):
        table.pop(getattr(_aten, name).default, None)
        table.pop(getattr(_aten, name).vec, None)
    decompositions.adjust(table)
    table[_aten.convolution_backward.default] = rules_window.convolution_backward
    return table


def capture_program(
    function: Function,
    inputs: Tensors,
    limits: Limits = LIMITS,
    precisions: Mapping[str, Precision] = ORDINARY,
    own: Tensors = NOTHING,
    values: Tensors = NOTHING,
    kept: bool = False,
) -> Program:
    """Capture ``function`` in one call and return it as a program whose products have the bits of ``precisions``.

    ``function`` maps a dictionary (name to tensor) to another dictionary, and may call ``torch.autograd.grad``. The
    program names its inputs and outputs by :func:`input_name`. Only dtypes and shapes of the example ``inputs`` matter.

    ``own`` holds the tensors of the model that are inputs. The capture refuses a function that reads such a tensor
    other than through its inputs, because the program would hold the tensor's initial value as a constant.

    ``values`` holds known values of inputs; shapes may depend on them. If the function returns an input unchanged, the
    input keeps its value. If ``kept`` is true, the caller guarantees that no other code changes such an input.

    Raises JobError if an operation has no form in primitives; the error names the operation and its call site.
    """
    program, relied_on = _captured(function, inputs, limits, precisions, own, values)
    changed = set() if kept else {name for name in relied_on if is_changed(program, name)}
    if not changed:
        return program
    others = {name: value for name, value in values.items() if name not in changed}
    return capture_program(function, inputs, limits, precisions, own, others)


def is_changed(program: Program, name: str) -> bool:
    """Return whether a program changes an input, that is, whether its output of the same name has another value."""
    (number,) = (at for at, spec in enumerate(program.inputs) if spec.name == input_name(name))
    return program.outputs.get(input_name(name), number) != number


def _captured(
    function: Function,
    inputs: Tensors,
    limits: Limits,
    precisions: Mapping[str, Precision],
    own: Tensors,
    values: Tensors,
) -> tuple[Program, set[str]]:
    """Return the program, and the names of the ``values`` on which it depends."""
    known = KnownValues(values, own)
    # make_fx distinguishes inputs by identity: a tensor with two names would become one input. The capture reads no
    # values of inputs, so the memory of these tensors is never touched.
    apart = {name: torch.empty_like(tensor) for name, tensor in inputs.items()}
    graph, names = _graph(function, apart, known)
    bits = bits_of_products(graph, inputs, names, precisions)
    writer = _Writer(Emitter(limits), bits)
    placeholders = iter(inputs.items())
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            name, tensor = next(placeholders)
            writer.input(node, name, tensor)
        elif node.op == "get_attr":
            tensor = getattr(graph, str(node.target))
            with _Located(node):
                _check_has_values(tensor)
                _check_not_own(tensor, own)
            writer.folding.keep(node, tensor)
        elif node.op == "call_function":
            writer.call(node)
        else:
            results = node.args[0]
            assert isinstance(results, Sequence)
            for name, result in zip(names, results, strict=True):
                assert isinstance(result, Node)
                writer.emitter.output(input_name(name), writer.value(result))
    return writer.emitter.build(), known.relied_on


def _graph(function: Function, inputs: Tensors, known: KnownValues) -> tuple[GraphModule, list[str]]:
    """Return the graph of ``function``, flat and without operations in place, and the names of its results."""
    names: list[str] = []
    places = CallSites()

    def flat(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = dict(zip(inputs, tensors, strict=True))
        known.stand_in(given)
        with known, places, Dense():
            outputs = function(given)
        names[:] = list(outputs)
        return list(outputs.values())

    begins_with(flat)
    try:
        plain = sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False)
        unasked = patch.object(Distribution, "_validate_args", False)
        with _quiet(), collected_later(), plain[0], plain[1], unasked:
            graph = _make_fx(flat, list(inputs.values()))
            if mutable := [node for node in graph.graph.nodes if _is_mutable(node)]:
                _check_changed(mutable)
                again = torch.func.functionalize(_AtenViews(graph).run, remove="mutations")
                graph = _make_fx(again, list(inputs.values()))
                _drop_write_backs(graph)
    except JobError:
        raise
    except Exception as error:
        other = "use another layer or function there (docs/jobs.md lists what works)"
        reason, remedy = known.why_not(error) or in_words(error, other)
        place = places.place_of_gradient(error) or place_of_error(error)
        if place.package and (reason, remedy) in _OF_VALUES:
            remedy = f"that line belongs to the package {place.package}; {_OF_PACKAGES}"
        raise JobError(str(place), f"cannot be captured: {reason}", remedy) from error
    graph.graph.eliminate_dead_code()
    return graph, names


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's own warnings and logs, which the author of a job cannot act on."""
    before = _NOISY.disabled
    _NOISY.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _NOISY.disabled = before


def _make_fx(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> GraphModule:
    tracer = make_fx(
        function,
        decomposition_table=_decompositions(),
        tracing_mode="fake",
        # The function may close over real tensors, such as tables.
        _allow_non_fake_inputs=True,
    )
    # This keeps the annotations that nodes get during the capture.
    with fx_traceback.preserve_node_meta():
        graph = tracer(*inputs)
    assert isinstance(graph, GraphModule)
    return graph


class _AtenViews(Interpreter):
    """An interpreter that replaces views of ``prims`` with ordinary views, because ``functionalize`` refuses views of
    ``prims``.
    """

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one operation."""
        if target is not torch.ops.prims.broadcast_in_dim.default:
            return super().call_function(target, args, kwargs)
        value, shape, dims = args
        aligned = [1] * len(shape)
        for size, dim in zip(value.shape, dims, strict=True):
            aligned[dim] = size
        return value.reshape(aligned).expand(shape)


def _drop_write_backs(graph: GraphModule) -> None:
    """Remove the copies into inputs that ``functionalize`` adds at the end.

    They are not needed, because a step returns the tensors that it changes.
    """
    for node in list(graph.graph.nodes):
        if node.target is _aten.copy_.default and node.args[0].op == "placeholder" and not node.users:
            graph.graph.erase_node(node)


def _is_mutable(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def _check_changed(nodes: Sequence[Node]) -> None:
    for node in nodes:
        if isinstance(node.args[0], Node) and node.args[0].op == "get_attr":
            reason = (
                "it changes a tensor in place that is not a buffer of the model; the next step would not see the change"
            )
            raise JobError(str(place_of_node(node)), reason, _KEEP)


def _check_has_values(tensor: torch.Tensor) -> None:
    if isinstance(tensor, FakeTensor):
        raise Unsupported(f"it reads a tensor that an earlier call or turn computed; {_KEEP}")


def _check_not_own(tensor: torch.Tensor, own: Tensors) -> None:
    place = tensor.untyped_storage().data_ptr()
    for name, kept in own.items():
        if place and kept.untyped_storage().data_ptr() == place:
            raise Unsupported(
                f"it reads the initial {name} in every step; use only the model that the measure gets as its argument, "
                "and read weights only as attributes of that model"
            )


class _Writer:
    """A writer that adds the nodes of a graph to a program, one after another."""

    def __init__(self, emitter: Emitter, bits: Mapping[Node, int]) -> None:
        self.emitter = emitter
        self.folding = Folding()
        self._bits = bits
        self._written: dict[Node, Any] = {}

    def input(self, node: Node, name: str, tensor: torch.Tensor) -> None:
        with _Located(node):
            dtype = dtype_of(tensor.dtype)
            self._written[node] = Ref(self.emitter.input(input_name(name), dtype, tensor.shape))

    def call(self, node: Node) -> None:
        with _Located(node):
            is_folded = self.folding.fold(node)
        if not is_folded:
            self._written[node] = self._translated(node)

    def value(self, node: Node) -> Any:
        """Return the handle of a node's value, or a tuple of handles.

        A folded node is written to the program at its first use.
        """
        if node not in self._written:
            with _Located(node):
                constant = self.folding.emit(self.emitter, node, not _has_form(node))
            self._written[node] = self._translated(node) if constant is None else Ref(constant)
        return self._written[node]

    def _translated(self, node: Node) -> Any:
        self.emitter.rerun = rerun_of(node)
        args: Any = torch.fx.map_arg(node.args, self.value)
        kwargs: Any = torch.fx.map_arg(node.kwargs, self.value)
        if node.target is operator.getitem:
            return args[0][args[1]]
        with _Located(node):
            handler = RULES.get(str(node.target))
            if handler is None and isinstance(node.meta.get("val"), _SYMBOLS):
                raise Unsupported(*VALUES)
            if handler is None:
                raise Unsupported("it cannot be expressed in Assay's primitives")
            options = {k: v for k, v in kwargs.items() if k not in {"layout", "device", "pin_memory"}}
            site = CaptureSite(self.emitter, node, self._bits.get(node, DEFAULT_BITS))
            result = handler(site, *args, **options)
        if isinstance(result, tuple):
            return tuple(Ref(part) for part in result)
        return Ref(result)


def _has_form(node: Node) -> bool:
    """Return whether primitives can compute the value of a node."""
    if node.target is operator.getitem:
        return _has_form(node.all_input_nodes[0])
    return node.op == "call_function" and str(node.target) in RULES


class _Located:
    """A context that turns an exception at a node into a JobError with the call site in the model."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception):
            return
        if isinstance(error, Expected):
            why, remedy = error.reason, error.remedy
        else:
            why, remedy = str(error) or type(error).__name__, ""
        if not remedy:
            why, _, remedy = why.partition("; ")
        reason = why.rstrip(".")
        if self._node.op == "call_function":
            reason = f"{called(self._node.target)} cannot be part of a job: {reason}"
        remedy = remedy or "use another layer or function there (docs/jobs.md lists what works)"
        raise JobError(str(place_of_node(self._node)), reason, remedy) from error
