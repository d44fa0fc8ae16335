"""Sums, extremes, products and random numbers of torch in primitives."""

from collections.abc import Sequence
from typing import Any

from pol.capture.program.emitter import Emitter
from pol.capture.rules.registry import CaptureSite, Ref, Unsupported, rule


@rule("aten.sum.dim_IntList", "aten.sum.default", "prims.sum.default")
def _sum(site: CaptureSite, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False, **_o: Any) -> int:
    if not site.emitter.shape(x):
        return site.operand(x, site.dtype)
    return site.emitter.cast(site.emitter.sum(x, dims or (), keepdim), site.dtype)


@rule("aten.mean.dim", "aten.mean.default")
def _mean(
    site: CaptureSite,
    x: Ref,
    dims: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> int:
    del dtype
    return site.emitter.mean(site.operand(x, "f32"), dims or (), keepdim)


def _variance(site: CaptureSite, x: int, dims: Sequence[int], correction: float, keepdim: bool) -> int:
    emitter = site.emitter
    centred = emitter.emit("sub", x, emitter.mean(x, dims, keepdim=True))
    square = emitter.emit("mul", centred, centred)
    return emitter.mean(square, dims, keepdim, correction)


@rule("prims.var.default")
def _var(site: CaptureSite, x: Ref, dims: Sequence[int] | None, correction: float = 1.0) -> int:
    return _variance(site, x, dims or (), correction, keepdim=False)


@rule("aten.var.correction")
def _var_correction(
    site: CaptureSite,
    x: Ref,
    dims: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> int:
    return _variance(site, x, dims or (), 1 if correction is None else correction, keepdim)


@rule("aten.var_mean.correction")
def _var_mean(
    site: CaptureSite,
    x: Ref,
    dims: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[int, ...]:
    variance = _var_correction(site, x, dims, correction, keepdim)
    assert isinstance(variance, int)
    return variance, site.emitter.mean(x, dims or (), keepdim)


@rule("aten.amax.default", "prims.amax.default")
def _amax(site: CaptureSite, x: Ref, dims: Sequence[int] = (), keepdim: bool = False) -> int:
    value = site.emitter.amax(_ordered(site.emitter, x), dims, keepdim)
    return site.emitter.cast(value, site.dtype)


@rule("aten.max.default")
def _max(site: CaptureSite, x: Ref) -> int:
    return _amax(site, x)


@rule("aten.amin.default", "prims.amin.default")
def _amin(site: CaptureSite, x: Ref, dims: Sequence[int] = (), keepdim: bool = False) -> int:
    emitter = site.emitter
    turned = opposite(emitter, _ordered(emitter, x))
    return emitter.cast(opposite(emitter, emitter.amax(turned, dims, keepdim)), site.dtype)


@rule("aten.min.default")
def _min(site: CaptureSite, x: Ref) -> int:
    return _amin(site, x)


@rule("aten.any.default", "aten.any.dim", "aten.any.dims")
def _any(site: CaptureSite, x: Ref, dims: Any = (), keepdim: bool = False) -> int:
    emitter = site.emitter
    order = (dims,) if isinstance(dims, int) else tuple(dims or ())
    count = emitter.sum(emitter.cast(x, "bool"), order, keepdim)
    return emitter.emit("gt", count, emitter.scalar(0, "i64"))


@rule("aten.argmax.default")
def _argmax(site: CaptureSite, x: Ref, dim: int | None = None, keepdim: bool = False) -> int:
    emitter = site.emitter
    x = Ref(_ordered(emitter, x))
    if not emitter.shape(x):
        return emitter.full(0, "i64", ())
    if dim is None:
        flat = emitter.reshape(x, (emitter.type(x).elements,))
        return emitter.reshape(emitter.emit("argmax", flat, dim=0, keepdim=False), site.shape)
    return emitter.emit("argmax", x, dim=dim % len(emitter.shape(x)), keepdim=keepdim)


@rule("aten.max.dim")
def _max_dim(site: CaptureSite, x: Ref, dim: int, keepdim: bool = False) -> tuple[int, ...]:
    emitter = site.emitter
    if not emitter.shape(x):
        return int(x), emitter.full(0, "i64", ())
    axis, dtype = dim % len(emitter.shape(x)), emitter.type(x).dtype
    value = _ordered(emitter, x)
    index = emitter.emit("argmax", value, dim=axis, keepdim=keepdim)
    return emitter.cast(emitter.amax(value, [axis], keepdim), dtype), index


@rule("aten.min.dim")
def _min_dim(site: CaptureSite, x: Ref, dim: int, keepdim: bool = False) -> tuple[int, ...]:
    emitter, dtype = site.emitter, site.emitter.type(x).dtype
    turned = Ref(opposite(emitter, _ordered(emitter, x)))
    largest, index = _max_dim(site, turned, dim, keepdim)
    return emitter.cast(opposite(emitter, largest), dtype), index


@rule("aten.argmin.default")
def _argmin(site: CaptureSite, x: Ref, dim: int | None = None, keepdim: bool = False) -> int:
    turned = opposite(site.emitter, _ordered(site.emitter, x))
    return _argmax(site, Ref(turned), dim, keepdim)


def _ordered(emitter: Emitter, x: int) -> int:
    """Return a bool value as integers, because extremes need numbers."""
    return emitter.cast(x, "i64") if emitter.type(x).dtype == "bool" else x


def opposite(emitter: Emitter, x: int) -> int:
    """Return numbers whose order is the opposite: -x or, for integers, -1 - x.

    Integers do not use -x, because the smallest integer has no negative.
    """
    if emitter.type(x).dtype == "i64":
        return emitter.emit("sub", emitter.scalar(-1, "i64"), x)
    return emitter.emit("neg", x)


@rule("aten.mm.default", "aten.bmm.default")
def _matmul(site: CaptureSite, left: Ref, right: Ref) -> int:
    return site.emitter.product(left, right, site.bits)


@rule("aten.mv.default", "aten.dot.default", "aten.vdot.default")
def _vector_product(site: CaptureSite, left: Ref, right: Ref) -> int:
    emitter = site.emitter
    size = emitter.shape(right)[0]
    rows = emitter.reshape(left, (emitter.type(left).elements // size, size))
    product = emitter.product(rows, emitter.reshape(right, (size, 1)), site.bits)
    return emitter.reshape(product, site.shape)


@rule("assay.gradient.default", "assay.inner_loss.default", "assay.later_weight.default")
def _marked(_site: CaptureSite, value: Ref, _name: str = "") -> int:
    return value


@rule("assay.uniform.default")
def _uniform(site: CaptureSite, step: Ref, shape: Sequence[int], place: int) -> int:
    return site.emitter.emit("uniform", step, shape=tuple(shape), site=place)


@rule(
    "aten.bernoulli.p",
    "aten.bernoulli.default",
    "aten.bernoulli.Tensor",
    "aten.bernoulli_.float",
    "aten.exponential.default",
    "aten.multinomial.default",
    "aten.normal.Tensor_Tensor",
    "aten.normal.Tensor_float",
    "aten.normal_functional.default",
    "aten.rand.default",
    "aten.rand_like.default",
    "aten.randn.default",
    "aten.randn_like.default",
    "aten.randint.default",
    "aten.randint.low",
    "aten.randint_like.default",
    "aten.randperm.default",
    "aten.uniform.default",
    "aten.native_dropout.default",
)
def _random(site: CaptureSite, *_arguments: Any, **_options: Any) -> int:
    raise Unsupported(
        "a job draws random numbers only by torch's functions that the model or the loss calls in Python; "
        "call torch.rand(shape) or torch.randn(shape) there"
    )
