"""A program with a known answer. It tests every executor that is chosen at run time before the executor is used.

The program covers kernels that only a whole program reaches: products of windows, chains, sorting, sums by rows. It
also covers every elementwise operation, in chains, on every pair of edge values of each dtype. It is only a sample: the
right answer does not prove that other programs are computed correctly.
"""

from collections.abc import Mapping
from hashlib import sha256
from math import prod
from types import MappingProxyType

import numpy as np

from pol.errors import JobError
from pol.executor.interface import Backend, run
from pol.job.program import Program, ProgramBuilder
from pol.ops.elementwise import ELEMENTWISE
from pol.ops.philox import words
from pol.ops.product import BITS
from pol.state.arrays import Array
from pol.values import ITEM_SIZE

KNOWN = "6e484d8aa1ac0057d7f31ec1c4dcb0525ed53b37e520f43edac69ef4f3772597"
"""SHA-256 of the outputs that the reference computes."""

_SEED = 20_261_123
_IMAGE, _TABLE = (4, 16, 15), (40, 6)
# Two groups of two channels; one matrix for windows of 3 x 3, and one for all 7 x 13 windows.
_LEFT, _TRANSPOSED = (2, 5, 2 * 9), (2, 5, 7 * 13)
_WINDOWS = {"starts": [1, 0], "strides": [2, 1], "counts": [7, 13], "kernel": [3, 3], "steps": [1, 1]}
_EDGES: Mapping[str, Array] = MappingProxyType(
    {
        "f32": np.array(
            [
                0.0,
                -0.0,
                0.1,
                0.5,
                -1 / 3,
                1.0,
                -1.0,
                1 + 2.0**-23,
                2.5,
                -3.1415927,
                2.0**-149,
                -(2.0**-149),
                3 * 2.0**-141,
                2.0**-126 - 2.0**-149,
                2.0**-126,
                -1e-20,
                88.7,
                -103.9,
                2.0**24 + 2,
                -1e20,
                2.0**63,
                -(2.0**63),
                3.4e38,
                np.inf,
                -np.inf,
                np.nan,
            ],
            np.float32,
        ),
        "i64": np.array(
            [
                0,
                1,
                -1,
                2,
                -3,
                7,
                2**24 + 1,
                -(2**53) - 1,
                2**62,
                2**63 - 1,
                -(2**63),
            ],
            np.int64,
        ),
        "bool": np.array([False, True]),
    }
)


def known_program() -> Program:
    """Return the program. Its inputs are two operands with a matrix per group, an image and a table.

    Its constants are the edge values.
    """
    builder = ProgramBuilder()
    lefts = builder.input("left", "f32", _LEFT), builder.input("transposed", "f32", _TRANSPOSED)
    image = builder.input("image", "f32", _IMAGE)
    table = builder.input("table", "f32", _TABLE)
    for bits in BITS:
        for left, transposed in zip(lefts, (False, True), strict=True):
            form = {"bits": bits, "transposed": transposed, **_WINDOWS}
            product = builder.node("matmul_windows", left, image, **form)
            builder.output(f"{'transposed' if transposed else 'windows'}_{bits}", product)
    order = builder.node("argsort", table, dim=0)
    builder.output("order", order)
    builder.output("rows", builder.node("add_rows", order, builder.node("exp", table), rows=50))
    squared = builder.node("mul", table, builder.node("tanh", builder.node("neg", table)))
    builder.output("summed", builder.node("sum", squared, dims=[1], keepdim=False))
    for dtype in _EDGES:
        _take_pairs(builder, dtype)
    return builder.build()


def _take_pairs(builder: ProgramBuilder, dtype: str) -> None:
    """Add the nodes that compute every elementwise operation for every pair of a dtype's edge values.

    ``where`` is computed with a true and with a false condition.
    """
    edges = _EDGES[dtype]
    pair = [builder.constant(dtype, shape, edges.tobytes()) for shape in ((1, len(edges), 1), (len(edges),))]
    is_chosen = builder.constant("bool", (2, 1, 1), bytes([0, 1]))
    for row in ELEMENTWISE:
        operands = [is_chosen, *pair] if row.name == "where" else pair[: row.arity[0]]
        attributes = [{"dtype": target} for target in ITEM_SIZE] if row.attributes else [{}]
        for attrs in attributes:
            try:
                result = builder.node(row.name, *operands, **attrs)
            except JobError:
                # The operation does not accept this dtype.
                continue
            _show(builder, f"edges.{row.name}.{dtype}.{attrs.get('dtype', '')}".rstrip("."), result)


def _show(builder: ProgramBuilder, name: str, value: int) -> None:
    """Make a value an output.

    An FP32 value becomes four outputs: its finite elements, the finite elements of its square plus itself, a mask of
    NaN, and a mask of negative signs, also of zeros.
    """
    if builder.type(value).dtype != "f32":
        builder.output(name, value)
        return
    infinite, one, zero = (
        builder.node("full", shape=[], dtype="f32", value=np.float32(number).tobytes().hex())
        for number in (np.inf, 1.0, 0.0)
    )
    # The last bit of this sum shows whether the product was rounded before it was added.
    total = builder.node("add", builder.node("mul", value, value), value)
    for output, source in ((name, value), (f"{name}.added", total)):
        is_finite = builder.node("lt", builder.node("abs", source), infinite)
        builder.output(output, builder.node("where", is_finite, source, zero))
    builder.output(f"{name}.nan", builder.node("ne", value, value))
    builder.output(f"{name}.sign", builder.node("lt", builder.node("div", one, value), zero))


def answer(backend: Backend) -> str:
    """Return the answer of a back end: the SHA-256 of all outputs of the program, in name order."""
    program = known_program()
    inputs = {}
    for number, spec in enumerate(program.inputs):
        plain = (words(_SEED, number, 1, prod(spec.type.shape)) >> 8).astype(np.float32)
        inputs[spec.name] = (plain * np.float32(2.0**-22) - 2).reshape(spec.type.shape)
    digest = sha256()
    for _, output in sorted(run(program, inputs, _SEED, backend).items()):
        digest.update(np.ascontiguousarray(output).tobytes())
    return digest.hexdigest()
