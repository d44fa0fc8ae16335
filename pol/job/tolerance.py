"""A job's part ``tolerance``: the consumer's consent to hardware arithmetic, and the thresholds for its results.

Only legs in the tier ``tolerance`` train in this arithmetic. Everywhere else, the part has no effect.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from domain.bounds import Length, Pattern, Range, Size, Visible
from domain.readable import Readable
from pol.errors import JobError
from pol.rules.tolerance import LEAST_LARGEST, LEAST_MEAN, PRECISIONS, THRESHOLD_MAX, Threshold

_ROWS_MAX: Final = 1 << 14
"""More than the tensors of two states and the metrics that a job may have."""
_REMEDY: Final = "build the job again with its profile (--tolerance, or tolerance=)"


@dataclass(frozen=True, slots=True)
class TensorTolerance(Readable):
    """The largest distances with which a tensor still counts as the same work, in parts of 2^-24 of its update.

    ``largest`` is for the furthest element and ``mean`` for the mean element. The name of a tensor begins with
    ``global.`` or ``local.``, and that of a metric with ``metric.``.

    Example::

        tolerance = assay.read_job("my-job").document.tolerance
        for row in tolerance.thresholds if tolerance else ():
            print(row.name, row.largest, row.mean)
    """

    name: Annotated[str, Visible(), Size(1, 256)]
    largest: Annotated[int, Range(LEAST_LARGEST, THRESHOLD_MAX)]
    mean: Annotated[int, Range(LEAST_MEAN, THRESHOLD_MAX)]


@dataclass(frozen=True)
class Tolerance(Readable):
    """The hardware arithmetic that the consumer of a job accepts in the tier ``tolerance``, and the thresholds.

    ``precision`` is the format of the operands of products. ``thresholds`` has a row for each tensor of both states
    and for each metric, in the order of their names.

    Example::

        tolerance = assay.read_job("my-job").document.tolerance
        print(tolerance.precision if tolerance else "exact")
    """

    precision: Annotated[str, Pattern("a precision", "|".join(PRECISIONS), f"use one of {', '.join(PRECISIONS)}")]
    thresholds: Annotated[tuple[TensorTolerance, ...], Length(1, _ROWS_MAX)]


def thresholds_of(tolerance: Tolerance) -> Mapping[str, Threshold]:
    """Return the threshold of each tensor and metric by its name."""
    return {row.name: Threshold(largest=row.largest, mean=row.mean) for row in tolerance.thresholds}


def measured_names(global_names: Iterable[str], local_names: Iterable[str], metrics: Iterable[str]) -> list[str]:
    """Return the names of all tensors and metrics that need a threshold, sorted."""
    parts = (("global", global_names), ("local", local_names), ("metric", metrics))
    return sorted(f"{prefix}.{name}" for prefix, names in parts for name in names)


def check_tolerance(tolerance: Tolerance, names: list[str]) -> None:
    """Raise JobError unless the thresholds are those of exactly the tensors and metrics ``names``, in this order."""
    for index, (row, name) in enumerate(zip(tolerance.thresholds, names, strict=False)):
        if row.name != name:
            reason = f"is {row.name!r}, but the next tensor of the job is {name!r}"
            raise JobError(f"tolerance.thresholds[{index}].name", reason, _REMEDY)
    if len(tolerance.thresholds) != len(names):
        reason = f"there are {len(tolerance.thresholds)} thresholds, but the job has {len(names)} tensors and metrics"
        raise JobError("tolerance.thresholds", reason, _REMEDY)
