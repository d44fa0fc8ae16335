"""Known values during the capture, which may decide shapes: masks, lists of indices, counts.

The capture computes the value of each tensor that depends only on constants, on shapes, and on tensors of the model
that no step changes. :attr:`KnownValues.relied_on` names the model's tensors on whose values the captured program
depends. A selection by a known mask becomes a selection by indices, so that all shapes are plain numbers; this also
holds for the gradient.

A mask made from labels, for example by ``F.one_hot``, selects one element of each row, whatever the labels are. The
indices of the mask and of its opposite are computed from the labels (:class:`_Choice`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from pol.capture.reports.reasons import CONTROL_FLOW, NotInAJob

MOST_ELEMENTS = 2**22
"""Largest number of elements of a value that is computed while a job is built."""
_aten = torch.ops.aten
_WITHOUT_VALUES = ("aten.empty", "aten.new_empty")
_MASKS = (torch.bool, torch.uint8)
_LABELS = (torch.int64, torch.int32)
_PUTS = (_aten.index_put.default, _aten.index_put_.default)
_SCATTERS = (
    _aten.scatter.value,
    _aten.scatter_.value,
    _aten.scatter.src,
    _aten.scatter_.src,
)
_OF_SHAPE = (
    _aten.zeros_like.default,
    _aten.ones_like.default,
    _aten.full_like.default,
    _aten.new_zeros.default,
    _aten.new_ones.default,
    _aten.new_full.default,
)
"""Operations that use only the shape and the type of their tensor."""
_ALIKE = (
    _aten._to_copy.default,
    _aten.clone.default,
    _aten.detach.default,
    _aten.alias.default,
    _aten.expand.default,
)
"""Operations that preserve a choice per row, in addition to elementwise operations."""
_BY_VALUE = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
_SYMBOL = re.compile(r"\b[uz]u?f?\d+\b")
COUNTS: Mapping[Any, tuple[str, str]] = {
    _aten.nonzero: (
        "the number of nonzero elements depends on values",
        "keep all elements, and use torch.where or multiply by the mask",
    ),
    **dict.fromkeys(
        (_aten.masked_select, _aten.index),
        (
            "the number of elements that a mask selects depends on values",
            "keep all elements: (x * mask).sum() / mask.sum(), or torch.where(mask, x, 0.0)",
        ),
    ),
    _aten.repeat_interleave: (
        "the number of elements depends on values",
        "give the sum of the counts as output_size=",
    ),
    _aten.bincount: (
        "the number of bins depends on values",
        "use F.one_hot(x, classes).sum(0)",
    ),
    **dict.fromkeys(
        (_aten._unique, _aten._unique2, _aten.unique_dim, _aten.unique_consecutive, _aten.unique_dim_consecutive),
        (
            "the number of different elements depends on values",
            "count each class by a mask: (x[:, None] == torch.arange(classes)).sum(0)",
        ),
    ),
}
"""Operations whose shapes depend on values, with the reason and the remedy if the values are not known."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A tensor whose last dimension has ``on`` at the index that a label gives, and ``off`` elsewhere."""

    labels: Tensor
    on: Tensor
    off: Tensor
    may_be_negative: bool
    """True if labels may be negative and count from the end, as in x[rows, labels]."""
    writes: tuple[int, int] = (0, 0)
    """Numbers of earlier writes to the tensor and to the labels."""


class KnownValues(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that computes the known values during a capture.

    Known values are constants, inputs with given ``values``, and results that depend only on these. The contents of
    ``own`` tensors are not known, because a function may read these tensors only as inputs.
    """

    supports_higher_order_operators = True

    def __init__(self, values: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.relied_on: set[str] = set()
        self._given = values
        self._values: Any = WeakTensorKeyDictionary()
        # for each storage, by its address: the names of the inputs on which its value depends
        self._names: dict[int, frozenset[str]] = {}
        # Computing known values must not write to foreign storages. The values of lost storages are no longer known.
        # The references prevent that an address is used again.
        self._foreign: dict[int, torch.UntypedStorage] = {}
        self._lost: dict[int, torch.UntypedStorage] = {}
        self._counts: dict[str, tuple[str, str]] = {}
        self._choices: Any = WeakTensorKeyDictionary()
        # number of writes to a storage, by its address
        self._writes: dict[int, int] = {}
        for tensor in own.values():
            self._lost[_address(tensor)] = tensor.untyped_storage()

    def stand_in(self, inputs: Mapping[str, Tensor]) -> None:
        """Register the tensors that replace a function's inputs during its capture, with their known values."""
        for name in self._given.keys() & inputs.keys():
            value = self._given[name]
            self._values[inputs[name]] = value
            self._names[_address(value)] = frozenset((name,))
            self._foreign[_address(value)] = value.untyped_storage()

    def value(self, tensor: Tensor) -> Tensor | None:
        """Return the value of a tensor, or None if it is not known.

        The inputs on which the value depends are added to ``relied_on``.
        """
        value = self._value(tensor)
        if value is not None:
            self.relied_on |= self._names.get(_address(value), frozenset())
        return value

    def why_not(self, error: BaseException) -> tuple[str, str] | None:
        """Return the reason and the remedy to show if torch reports that a size depends on values.

        Return None if the operation that made the size is not one of ``COUNTS``.
        """
        for symbol in _SYMBOL.findall(str(error)):
            if symbol in self._counts:
                return self._counts[symbol]
        return None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Call one operation, and also compute its value if all its operands are known."""
        options = kwargs or {}
        ours = _REWRITTEN.get(func)
        if ours is not None:
            with self:
                rewritten = ours(self, *args, **options)
            if rewritten is not NotImplemented:
                return rewritten
        tags = getattr(func, "tags", ())
        if any(tag in tags for tag in _BY_VALUE):
            decided = self._decided(func, args, options)
            if decided is not None:
                return decided
        refusal = COUNTS.get(getattr(func, "overloadpacket", None))
        choice = self._chosen_by(func, args, options)
        try:
            result = func(*args, **options)
        except CONTROL_FLOW as error:
            if refusal is None:
                raise
            raise NotInAJob(*refusal) from error
        if refusal is not None:
            self._note_counts(refusal, result)
        self._follow(func, args, options, result)
        if choice is not None:
            self._note_choice(result, choice)
        return result

    def note_labels(self, marks: Tensor, labels: Tensor) -> None:
        """Record that each row of ``marks`` is 1 at the index that its label gives, and 0 elsewhere."""
        with plainly():
            zero, one = torch.tensor([0, 1]).unbind()
        self._note_choice(marks, _Choice(labels=labels, on=one, off=zero, may_be_negative=False))

    def _note_choice(self, marks: Tensor, choice: _Choice) -> None:
        self._choices[marks] = replace(choice, writes=self._writes_to(marks, choice.labels))

    def _writes_to(self, marks: Tensor, labels: Tensor) -> tuple[int, int]:
        return self._writes.get(_address(marks), 0), self._writes.get(_address(labels), 0)

    def _choice(self, tensor: Tensor) -> _Choice | None:
        choice: _Choice | None = self._choices.get(tensor)
        if choice is None or choice.writes != self._writes_to(tensor, choice.labels):
            return None
        return choice

    def _chosen_by(self, func: Any, args: Any, options: Any) -> _Choice | None:
        """Return the :class:`_Choice` that describes the result of an operation; None if it does not have this form."""
        if func in _PUTS and not options and len(args) == 3:
            return self._chosen_by_put(*args)
        if func in _SCATTERS and not options and len(args) == 4:
            return self._chosen_by_scatter(*args)
        if func not in _ALIKE and torch.Tag.pointwise not in getattr(func, "tags", ()):
            return None
        tensors = [leaf for leaf in tree_leaves((args, options)) if isinstance(leaf, Tensor)]
        before = self._choice(tensors[0]) if len(tensors) == 1 else None
        if before is None or any(_written(func, args, options)):
            return None
        if func is _aten.expand.default:
            return before if tuple(args[1]) == tuple(tensors[0].shape) else None
        with plainly():
            both = torch.stack((before.off, before.on))
            replaced, named = tree_map(lambda leaf: both if leaf is tensors[0] else leaf, (args, options))
            off, on = func(*replaced, **named).unbind()
            return None if bool(off == on) else replace(before, off=off, on=on)

    def _chosen_by_put(self, x: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> _Choice | None:
        if x.dim() != 2 or len(indices) != 2:
            return None
        rows, labels = indices
        if rows is None or labels is None or labels.dtype not in _LABELS or labels.dim() != 1:
            return None
        places = self._value(rows)
        if places is None or places.dtype in _MASKS or places.dim() != 1 or len(places) != len(x):
            return None
        with plainly():
            if len(labels) != len(x) or not bool((places == torch.arange(len(x))).all()):
                return None
        return self._choice_by(x, labels, values, may_be_negative=True)

    def _chosen_by_scatter(self, x: Tensor, dim: int, index: Tensor, values: Tensor | float) -> _Choice | None:
        if not x.dim() or dim % x.dim() != x.dim() - 1 or index.shape != (*x.shape[:-1], 1):
            return None
        return self._choice_by(x, index, values, may_be_negative=False)

    def _choice_by(self, x: Tensor, labels: Tensor, values: Tensor | float, *, may_be_negative: bool) -> _Choice | None:
        """Return the ``_Choice`` for a write of the number ``values`` at ``labels`` into the constant tensor ``x``.

        Return None if the elements of ``x``, or those of ``values``, are not known or differ from each other. Also
        return None if ``values`` has the number that ``x`` already has.
        """
        off, on = self._number(x), self._number(values)
        if off is None or on is None:
            return None
        with plainly():
            on = on.to(off.dtype)
            return None if bool(off == on) else _Choice(labels=labels, on=on, off=off, may_be_negative=may_be_negative)

    def _number(self, tensor: Tensor | float) -> Tensor | None:
        """Return the number that all elements of a tensor equal; None if they differ or are not known."""
        if not isinstance(tensor, Tensor):
            with plainly():
                return torch.tensor(tensor)
        value = self._value(tensor)
        if value is None or not value.numel():
            return None
        self.relied_on |= self._names.get(_address(value), frozenset())
        with plainly():
            first = value.reshape(-1)[0].clone()
            return first if bool((value == first).all()) else None

    def _value(self, tensor: Tensor) -> Tensor | None:
        if isinstance(tensor, FakeTensor):
            value: Tensor | None = self._values.get(tensor)
        elif type(tensor) in (Tensor, torch.nn.Parameter) and tensor.layout == torch.strided:
            value = tensor
            if _address(value) not in self._names:
                self._foreign[_address(value)] = value.untyped_storage()
        else:
            value = None
        return None if value is None or _address(value) in self._lost else value

    def _operands(self, args: Any, options: Any) -> tuple[Any, Any, frozenset[str]] | None:
        """Return the values of an operation's operands, and the names of the inputs on which they depend.

        Return None if one of the values is not known.
        """
        names: frozenset[str] = frozenset()
        values = {}
        for leaf in tree_leaves((args, options)):
            if isinstance(leaf, Tensor):
                value = self._value(leaf)
                if value is None:
                    return None
                values[id(leaf)] = value
                names |= self._names.get(_address(value), frozenset())
            elif isinstance(leaf, SymInt | torch.SymFloat | torch.SymBool):
                return None
        given, named = tree_map(lambda leaf: values[id(leaf)] if isinstance(leaf, Tensor) else leaf, (args, options))
        return given, named, names

    def _decided(self, func: Any, args: Any, options: Any) -> Any:
        """Compute an operation whose result's shape depends on values; return None if the values are not known."""
        operands = self._operands(args, options)
        if operands is None:
            return None
        known, named, names = operands
        with plainly():
            result = func(*known, **named)
        self.relied_on |= names
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._names[_address(leaf)] = names
                self._foreign[_address(leaf)] = leaf.untyped_storage()
        return result

    def _note_counts(self, refusal: tuple[str, str], result: Any) -> None:
        for leaf in tree_leaves(result):
            for size in leaf.shape if isinstance(leaf, Tensor) else ():
                if type(size) is not int:
                    self._counts.setdefault(str(size), refusal)

    def _follow(self, func: Any, args: Any, options: Any, result: Any) -> None:
        """Compute the values of an operation's result and of the operands that the operation changes, and store
        them.
        """
        written = list(_written(func, args, options))
        for each in written:
            self._writes[_address(each)] = self._writes.get(_address(each), 0) + 1
        targets = [value for each in written if (value := self._value(each)) is not None]
        computed = None
        if _has_value(func, result) and not any(_address(t) in self._foreign for t in targets):
            computed = self._computed(func, args, options)
        if computed is None:
            for target in targets:
                self._lost[_address(target)] = target.untyped_storage()
            return
        value, names = computed
        for target in targets:
            self._names[_address(target)] = names
        for leaf, part in zip(tree_leaves(result), tree_leaves(value), strict=True):
            if isinstance(leaf, FakeTensor) and isinstance(part, Tensor):
                self._values[leaf] = part
                self._names[_address(part)] = names

    def _computed(self, func: Any, args: Any, options: Any) -> tuple[Any, frozenset[str]] | None:
        if func in _OF_SHAPE:
            with plainly():
                shown = torch.zeros((), dtype=args[0].dtype).expand(args[0].shape)
            args = (shown, *args[1:])
        operands = self._operands(args, options)
        if operands is None:
            return None
        known, named, names = operands
        with plainly():
            try:
                value = func(*known, **named)
                # the result is a new constant, which the function may change
                return value.clone() if func in _LIFTS else value, names
            # a value that torch cannot compute is simply not known
            except Exception:  # noqa: BLE001
                return None

    def places(self, mask: Tensor) -> Tensor | None:
        """Return the flat indices, in C order, of the true elements of a mask; None if their number is not known."""
        value = self.value(mask)
        if value is None:
            choice = self._choice(mask)
            return None if choice is None else _chosen(mask, choice)
        with plainly():
            count = int(value.count_nonzero())
        flat = _aten.eq.Scalar(_aten.reshape.default(mask, [-1]), 0)
        # true elements come first, in order
        order = _aten.sort.stable(flat, stable=True, dim=0)[1]
        indices: Tensor = _aten.slice.Tensor(order, 0, 0, count)
        return indices


def _chosen(mask: Tensor, choice: _Choice) -> Tensor | None:
    """Return the flat indices, in C order, of the true elements of a mask made from labels.

    Return None if all elements of the mask are equal.
    """
    with plainly():
        is_on, is_off = bool(choice.on), bool(choice.off)
    if is_on == is_off:
        return None
    width = mask.shape[-1]
    rows = prod(mask.shape[:-1])
    labels = _aten.reshape.default(choice.labels, [rows])
    if labels.dtype != torch.int64:
        labels = _aten._to_copy.default(labels, dtype=torch.int64)
    if choice.may_be_negative:
        labels = _aten.where.self(_aten.lt.Scalar(labels, 0), _aten.add.Tensor(labels, width), labels)
    first = _aten.arange.start_step(0, rows * width, width, device=mask.device)
    if is_on:
        indices: Tensor = _aten.add.Tensor(first, labels)
        return indices
    others = _aten.arange.default(width - 1, device=mask.device)
    is_behind = _aten.ge.Tensor(others, _aten.unsqueeze.default(labels, 1))
    columns = _aten.add.Tensor(others, is_behind)
    return _aten.reshape.default(  # type: ignore[no-any-return]
        _aten.add.Tensor(columns, _aten.unsqueeze.default(first, 1)), [-1]
    )


def note_labels(marks: Tensor, labels: Tensor) -> None:
    """Record, during a capture, that each row of ``marks`` is 1 at the index that its label gives, and 0 elsewhere."""
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, KnownValues):
            mode.note_labels(marks, labels)
            return


def known_value(tensor: Tensor) -> Tensor | None:
    """Return the value of a tensor if it is known during the present capture, else None.

    If it is known, the capture records that its program depends on this value.
    """
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, KnownValues):
            return mode.value(tensor)
    return None


_LIFTS = (_aten.lift_fresh.default, _aten.lift_fresh_copy.default, _aten.lift.default)


@contextmanager
def plainly() -> Iterator[None]:
    """Suspend the capture and torch's gradients within this context, to compute with plain tensors."""
    with _disable_current_modes(), torch.no_grad():
        yield


def _address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _written(func: Any, args: Any, options: Any) -> Iterator[Tensor]:
    """Yield the operands that an operation changes in place."""
    for at, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[at] if at < len(args) else options.get(argument.name)
        yield from (leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def _has_value(func: Any, result: Any) -> bool:
    """Return whether the result of an operation can be computed as a known value. A result that is too large cannot."""
    if str(func).startswith(("assay.", *_WITHOUT_VALUES)):
        return False
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    return bool(tensors) and all(_is_small(tensor) for tensor in tensors)


def _is_small(tensor: Tensor) -> bool:
    sizes = tensor.shape
    return all(type(size) is int for size in sizes) and prod(sizes) <= MOST_ELEMENTS


# --- operations that depend on values ---


def _by_dimension(places: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """Convert flat indices, in C order, to one index tensor for each dimension of ``shape``."""
    indices: list[Tensor] = []
    width = prod(shape)
    for size in shape:
        width //= max(size, 1)
        line = _aten.floor_divide.default(places, width) if width > 1 else places
        indices.append(_aten.remainder.Scalar(line, size) if indices else line)
    return indices


def _indices(known: KnownValues, x: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None] | None:
    """Return ``indices`` with index tensors in place of each mask.

    Return None if there is no mask, or if the true elements of a mask are not known.
    """
    replaced: list[Tensor | None] = []
    if not any(index is not None and index.dtype in _MASKS for index in indices):
        return None
    for index in indices:
        if index is None or index.dtype not in _MASKS:
            replaced.append(index)
            continue
        shape = tuple(index.shape)
        places = known.places(index) if shape else None
        if places is None or shape != tuple(x.shape[len(replaced) : len(replaced) + len(shape)]):
            return None
        replaced.extend(_by_dimension(places, shape))
    return replaced


def _index(known: KnownValues, x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    (first, mask), *others = [(at, one) for at, one in enumerate(indices) if one is not None]
    if others or mask.dtype not in _MASKS or not mask.dim():
        replaced = _indices(known, x, indices)
        return NotImplemented if replaced is None else _aten.index.Tensor(x, replaced)
    # one index along the flattened dimensions of the mask
    last = first + mask.dim()
    places = known.places(mask) if x.shape[first:last] == mask.shape else None
    if places is None:
        return NotImplemented
    flat = _aten.reshape.default(x, [*x.shape[:first], mask.numel(), *x.shape[last:]])
    return _aten.index.Tensor(flat, [*[None] * first, places])


def _index_put(func: Any) -> Callable[..., Any]:
    def put(
        known: KnownValues,
        x: Tensor,
        indices: Sequence[Tensor | None],
        values: Tensor,
        accumulate: bool = False,
        *options: Any,
    ) -> Any:
        # a single number can be written by the mask itself
        is_one = values.numel() == 1 and not accumulate
        replaced = None if is_one else _indices(known, x, indices)
        if replaced is None:
            return NotImplemented
        return func(x, replaced, values, accumulate, *options)

    return put


def _masked_select(known: KnownValues, x: Tensor, mask: Tensor) -> Any:
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
    places = known.places(_aten.expand.default(mask, shape))
    if places is None:
        return NotImplemented
    flat = _aten.reshape.default(_aten.expand.default(x, shape), [-1])
    return _aten.index.Tensor(flat, [places])


def _nonzero(known: KnownValues, mask: Tensor) -> Any:
    places = known.places(mask) if mask.dim() else None
    if places is None:
        return NotImplemented
    return _aten.stack.default(_by_dimension(places, tuple(mask.shape)), 1)


def _repeat_interleave(known: KnownValues, repeats: Tensor, *, output_size: int | None = None) -> Any:
    if output_size is None or known.value(repeats) is not None:
        return NotImplemented
    ends = _aten.cumsum.default(repeats, 0)
    places = _aten.arange.default(output_size, device=repeats.device)
    return _aten.searchsorted.Tensor(ends, places, right=True)


_REWRITTEN: Mapping[Any, Callable[..., Any]] = {
    _aten.index.Tensor: _index,
    _aten._unsafe_index.Tensor: _index,
    **{
        func: _index_put(func)
        for func in (
            _aten.index_put.default,
            _aten.index_put_.default,
            _aten._index_put_impl_.default,
            _aten._unsafe_index_put.default,
        )
    },
    _aten.masked_select.default: _masked_select,
    _aten.nonzero.default: _nonzero,
    _aten.repeat_interleave.Tensor: _repeat_interleave,
}
"""Replacements for operations whose shapes depend on values, by operation; they use the indices of known values."""
