"""The protocol of codecs of updates, and the parts that all codecs share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch
from torch.nn.functional import embedding

Tensors = Mapping[str, torch.Tensor]
RESIDUE, MOMENTUM, ROUND = "update_residue.", "update_momentum.", "update_round"
"""Names of a codec's tensors in a slot's local state; the first two are prefixes."""
POOL = "small"
"""Name of the coded tensor that small tensors make together."""
PLAIN = "plain"
"""Name of the tensor of an update that holds all tensors that are sent in full."""
_POWERS = tuple(1 << exponent for exponent in range(16))
"""Sizes that groups of a row may have; rows have a power of two of elements."""


class Codec(Protocol):
    """A codec of updates. An update is the change of a round: tensors at its beginning minus tensors at its end."""

    def initial(self) -> dict[str, torch.Tensor]:
        """Return the codec's local state before the first round."""

    def encode(self, moved: Tensors, local: Tensors) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the update of a round and the codec's local state after it, from what ``moved`` in the round."""

    def decode(self, updates: Tensors) -> dict[str, torch.Tensor]:
        """Return the mean of the changes by name, from the updates of all slots; their first dimension is the slot."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tensors of an update: those that are coded, and those that are sent in full. All map names to shapes.

    ``pooled`` are small tensors that are coded together, as the coded tensor ``pool``, whose shape ``coded`` has.
    """

    coded: Mapping[str, tuple[int, ...]]
    pooled: Mapping[str, tuple[int, ...]]
    pool: str
    plain: Mapping[str, tuple[int, ...]]

    def rows(self, size: int) -> list[int]:
        """Return the number of rows of each coded tensor if it is divided into rows of ``size`` elements."""
        return [-(-prod(shape) // size) for shape in self.coded.values()]

    def gathered(self, moved: Tensors) -> dict[str, torch.Tensor]:
        """Return the coded tensors; the small ones among them are put behind each other."""
        pool = {self.pool: torch.cat([moved[name].reshape(-1) for name in self.pooled])} if self.pooled else {}
        return {name: pool[name] if name in pool else moved[name] for name in self.coded}

    def encode_plain(self, moved: Tensors) -> dict[str, torch.Tensor]:
        """Return the part of an update that is sent in full."""
        flat = [moved[name].reshape(-1) for name in self.plain]
        return {PLAIN: torch.cat(flat)} if flat else {}

    def decoded(self, coded: Tensors, updates: Tensors) -> dict[str, torch.Tensor]:
        """Return the means of all changes, from those of the coded tensors and from the updates of all slots."""
        means = {name: mean for name, mean in coded.items() if name != self.pool}
        if self.pooled:
            means.update(_apart(coded[self.pool], self.pooled))
        if self.plain:
            means.update(_apart(updates[PLAIN].sum(0) / updates[PLAIN].shape[0], self.plain))
        return means


def _apart(flat: torch.Tensor, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Return the tensors that lie behind each other in ``flat``."""
    parts = torch.split(flat, [prod(shape) for shape in shapes.values()])
    return {name: part.reshape(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


def layout_of(trained: Tensors, updated: Iterable[str], state: Tensors, least: int) -> Layout:
    """Return the layout of updates in which tensors that optimizers move are coded if they have ``least`` elements.

    Smaller ones are coded together if all of them together have as many. ``updated`` are the names of all tensors that
    a step changes.
    """
    coded = {name: tuple(tensor.shape) for name, tensor in trained.items() if tensor.numel() >= least}
    small = {name: tuple(tensor.shape) for name, tensor in trained.items() if name not in coded}
    total = sum(map(prod, small.values()))
    pool = ""
    if total >= least:
        pool = POOL
        while pool in trained:
            pool += "_"
        coded[pool] = (total,)
    pooled = small if pool else {}
    plain = {name: tuple(state[name].shape) for name in updated if name not in coded and name not in pooled}
    return Layout(coded=coded, pooled=pooled, pool=pool, plain=plain)


def in_rows(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return the elements of a tensor in rows of ``size``, with zeros behind the last one."""
    flat = tensor.reshape(-1)
    missing = -flat.numel() % size
    return (torch.nn.functional.pad(flat, (0, missing)) if missing else flat).reshape(-1, size)


def from_rows(rows: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return the tensor whose elements :func:`in_rows` put into rows."""
    return rows.reshape(-1)[: prod(shape)].reshape(tuple(shape))


def largest(rows: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the places and the values of the largest magnitudes in each row; of equal ones the first is taken.

    Sorting is the most expensive part of a sparse code. So only the groups with the largest maxima are sorted: each of
    the ``count`` largest elements is in one of the first ``count`` groups.
    """
    number, size = rows.shape
    sizes = rows.abs()
    group = group_size(size, count)
    if group == 1:
        places = _descending(sizes)[:, :count]
        return places, rows.gather(1, places)
    groups = size // group
    # in their old order, so that the first of equal magnitudes is still the first
    line = torch.arange(number).reshape(number, 1)
    best = _descending(sizes.reshape(number, groups, group).amax(2))[:, :count]
    best = embedding(torch.argsort(best, dim=1) + count * line, best.reshape(-1, 1)).squeeze(2)
    values = embedding(best + groups * line, rows.reshape(number * groups, group)).reshape(-1, 1)
    places = embedding(best, torch.arange(size).reshape(groups, group)).reshape(-1, 1)
    order = _descending(values.reshape(number, count * group).abs())[:, :count] + count * group * line
    return embedding(order, places).squeeze(2), embedding(order, values).squeeze(2)


def group_size(size: int, count: int) -> int:
    """Return the size of groups for which :func:`largest` sorts least, or 1 if it has to sort all elements."""

    def compared(group: int) -> int:
        lines = [size] if group == 1 else [size // group, count, count * group]
        return sum(line * (line - 1).bit_length() for line in lines)

    return min((group for group in _POWERS if group == 1 or count * group < size), key=compared)


def _descending(sizes: torch.Tensor) -> torch.Tensor:
    """Return the positions in each row from the largest to the smallest element; equal ones keep their order."""
    return torch.sort(-sizes, dim=1, stable=True).indices


def spread(places: torch.Tensor, values: torch.Tensor, size: int) -> torch.Tensor:
    """Return rows of ``size`` elements that are 0 except at ``places``, where they have ``values``."""
    return torch.zeros(places.shape[0], size).scatter_add(1, places, values)


def mean_spread(places: torch.Tensor, values: torch.Tensor, size: int) -> torch.Tensor:
    """Return the mean over slots of the rows that :func:`spread` makes of each slot. Slots are added in their order."""
    slots, rows, _ = places.shape
    index = (places + size * torch.arange(rows).reshape(rows, 1)).reshape(-1)
    total = torch.zeros(rows * size).index_add(0, index, values.reshape(-1))
    return total.reshape(rows, size) / slots
