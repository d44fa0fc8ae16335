"""A case: one primitive on given operands, and what has to come out. ``README.md`` here has the form."""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pol.errors import OutOfRange
from pol.executor.interface import Backend
from pol.job.program import ProgramBuilder
from pol.state.arrays import NUMPY_DTYPES, Array, dtype_name

FOLDER = Path(__file__).parent
FAMILIES = ("elementwise", "functions", "shape", "reduce", "order", "product", "create", "repeat")
"""Names of the files."""
OUT_OF_RANGE = "out_of_range"
_RESULT = "result"

Case = dict[str, Any]
Tensor = dict[str, Any]


def tensor(array: Array, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return an array as a case has it, its elements repeated until they fill ``shape``; every NaN is 0x7fc00000."""
    dtype = dtype_name(array, "tensor")
    plain = np.ascontiguousarray(array, NUMPY_DTYPES[dtype])
    if dtype == "f32":
        plain = np.where(np.isnan(plain), np.float32(np.nan), plain)
    found = list(array.shape if shape is None else shape)
    return {"dtype": dtype, "shape": found, "data": plain.tobytes().hex()}


def array_of(value: Tensor) -> Array:
    """Return the array that a case means."""
    elements = np.frombuffer(bytes.fromhex(value["data"]), NUMPY_DTYPES[value["dtype"]])
    count = prod(value["shape"])
    repeated = np.resize(elements, count) if elements.size < count else elements
    return repeated.reshape(value["shape"])


def asked(case: Case) -> Case:
    """Return a case without its answer."""
    return {key: value for key, value in case.items() if key not in (_RESULT, "error")}


def answer(backend: Backend, case: Mapping[str, Any]) -> Case:
    """Return what a back end makes of a case, in the form of an answer."""
    builder = ProgramBuilder()
    operands = {f"operand{i}": array_of(value) for i, value in enumerate(case["operands"])}
    handles = [builder.input(name, dtype_name(array, name), array.shape) for name, array in operands.items()]
    builder.output(_RESULT, builder.node(case["op"], *handles, **case["attrs"]))
    compiled = backend.compile(builder.build(), case.get("seed", 0))
    try:
        return {_RESULT: tensor(compiled.run(operands)[_RESULT])}
    except OutOfRange:
        return {"error": OUT_OF_RANGE}


def read(family: str) -> list[Case]:
    """Return the cases of a file."""
    found: list[Case] = json.loads((FOLDER / f"{family}.json").read_text(encoding="utf-8"))
    return found
