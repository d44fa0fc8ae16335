"""Views by strides, which some formulas of torch use, as selections of elements of the operand.

Values of a job have no strides, so the capture computes which element is at each place in memory.
"""

from collections.abc import Sequence

import torch
from torch.fx import Node

from pol.capture.rules.registry import CaptureSite, Ref, Unsupported, rule

_MOST_ELEMENTS = 2**22
"""Largest number of elements of an operand with such a view."""


@rule("aten.as_strided.default")
def _as_strided(
    site: CaptureSite, x: Ref, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> int:
    numbers, source = _numbered(site, 0)
    places = numbers.as_strided(tuple(size), tuple(stride), source.storage_offset() if offset is None else offset)
    return _taken(site, x, places)


@rule("aten.as_strided_scatter.default")
def _as_strided_scatter(
    site: CaptureSite,
    x: Ref,
    values: Ref,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None = None,
) -> int:
    emitter = site.emitter
    numbers, source = _numbered(site, 0)
    start = source.storage_offset()
    count = source.numel()
    written = numbers.as_strided(tuple(size), tuple(stride), start if offset is None else offset)
    written.copy_(count + torch.arange(written.numel()).reshape(written.shape))
    places = numbers.as_strided(source.shape, source.stride(), start)
    if bool((places >= count).all()):
        return _taken(site, values, places - count)
    both = [emitter.reshape(part, (emitter.type(part).elements,)) for part in (x, values)]
    return _taken(site, Ref(emitter.emit("concat", *both, dim=0)), places)


def _numbered(site: CaptureSite, operand: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the number of the operand's element at each place in memory, and the operand itself.

    Places without an element have the number -1.
    """
    node = site.node.args[operand]
    assert isinstance(node, Node)
    source: torch.Tensor = node.meta["val"]
    if not 0 < source.numel() <= _MOST_ELEMENTS:
        reason = (
            f"it views a tensor of {source.numel():,} elements by strides, but at most {_MOST_ELEMENTS:,} are supported"
        )
        raise Unsupported(reason, "use x.reshape(…), x.permute(…) or indexing instead of strides")
    start = source.storage_offset()
    steps = zip(source.shape, source.stride(), strict=True)
    memory = torch.full((1 + start + sum((size - 1) * step for size, step in steps),), -1)
    memory.as_strided(source.shape, source.stride(), start).copy_(torch.arange(source.numel()).reshape(source.shape))
    return memory, source


def _taken(site: CaptureSite, x: Ref, places: torch.Tensor) -> int:
    """Return the elements of ``x`` with the numbers ``places``, in the shape of ``places``."""
    emitter = site.emitter
    if bool((places < 0).any()):
        reason = "it reads places in memory that hold no element of its operand"
        raise Unsupported(reason, "use x.reshape(…), x.permute(…) or indexing instead of strides")
    count = emitter.type(x).elements
    shape = tuple(places.shape)
    if torch.equal(places.flatten(), torch.arange(count)):
        return emitter.reshape(x, shape)
    flat = emitter.reshape(x, (count,))
    return emitter.emit("take", flat, emitter.constant(places.contiguous().numpy(), "i64"))
