"""Types of values, and conversions between numbers and FP32 bit patterns."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated

from domain.bounds import Length, Pattern, Range, Size
from domain.readable import Readable
from pol.limits import MAX_DIMENSION, MAX_RANK

ITEM_SIZE = {"f32": 4, "i64": 8, "bool": 1}
"""Size of one element in bytes, for each dtype that a job may use."""

Shape = tuple[int, ...]

MAX_NAME = 160
"""Largest number of characters in the name of a tensor, an input or an output."""
NAME = Pattern(
    "words of letters, digits and underscores with dots between them",
    r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*",
    "use a name such as layer1.weight",
)
TensorName = Annotated[str, Size(1, MAX_NAME), NAME]
DType = Annotated[str, Pattern("a dtype", "|".join(ITEM_SIZE), f"use one of {', '.join(ITEM_SIZE)}")]
Dimensions = Annotated[
    tuple[Annotated[int, Range(0, MAX_DIMENSION)], ...],
    Length(0, MAX_RANK),
]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dtype (``f32``, ``i64``, ``bool``) and shape of a value."""

    dtype: str
    shape: Shape

    @property
    def elements(self) -> int:
        """Number of elements (1 for a scalar)."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.elements * ITEM_SIZE[self.dtype]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class TensorSpec(Readable):
    """The name, dtype and shape of a tensor of a state, or of a column of the data (the shape of a column omits the row
    dimension).

    Example::

        for spec in assay.read_job("my-job").updated:
            print(spec.name, spec.dtype, spec.shape)
    """

    name: TensorName
    dtype: DType
    shape: Dimensions

    @property
    def type(self) -> TensorType:
        """Dtype and shape without the name."""
        return TensorType(self.dtype, self.shape)


def f32_bits(number: float) -> int:
    """Return the bit pattern of a number, rounded to FP32; OverflowError if the rounded number is not finite."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    return int(bits)


def f32_number(bits: int) -> float:
    """Return the number that an FP32 bit pattern encodes."""
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(number)


def metric_values(bits: Sequence[int]) -> tuple[float, ...]:
    """Convert the metrics of a boundary from FP32 bit patterns to numbers."""
    return tuple(f32_number(pattern) for pattern in bits)


def mean_metrics(sums: Sequence[float], steps: int) -> tuple[int, ...]:
    """Return the means of metrics over the steps of a segment as FP32 bit patterns; ``sums`` are in FP64."""
    # An FP32 number plus 0.0 is the same number, except that -0.0 becomes +0.0.
    return tuple(f32_bits(f32_number(f32_bits(total / steps)) + 0.0) for total in sums)
