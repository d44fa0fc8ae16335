"""Tables of numbers that vary by step: computed when a job is built, and looked up in each step."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from pol.errors import JobError
from pol.limits import LIMITS
from pol.state.arrays import Array

MOST_STEPS = LIMITS.constants_size // 4
"""Largest number of entries of a table, which is a constant of the job."""


class StepTable:
    """A number for each step; a table with one entry has the same number for every step."""

    def __init__(
        self,
        values: Sequence[float] | Array,
        factor: float = 1.0,
        steps: int | None = None,
        first: int = 0,
    ) -> None:
        """Create a table of ``values`` for the steps from ``first`` on, each multiplied by ``factor``.

        If there are more ``steps`` than values, the last value applies to all later steps.
        """
        self._first = first
        self.values = np.asarray(values, np.float64)
        if bool((self.values == self.values[0]).all()):
            self.values, factor = self.values[:1] * factor, 1.0
        self._factor = factor
        self._ends = steps is not None and len(self.values) < steps
        self._numbers = torch.from_numpy(self.values.astype(np.float32))

    @property
    def is_constant(self) -> bool:
        """True if all steps have the same number."""
        return len(self.values) == 1

    @property
    def is_finite(self) -> bool:
        """True if all numbers are finite in FP32."""
        return bool(torch.isfinite(self._numbers).all())

    def at(self, step: torch.Tensor) -> torch.Tensor:
        """Return the number of a step (an integer of shape ()) as FP32 of shape ()."""
        if self.is_constant:
            return self._numbers[0].clone()
        place = step - self._first if self._first else step
        if self._ends:
            place = torch.clamp(place, max=len(self.values) - 1)
        number = torch.index_select(self._numbers, 0, place.reshape(1)).reshape(())
        return number if self._factor == 1.0 else number * self._factor


def share_tables(columns: Sequence[Array], first: int = 0) -> list[StepTable]:
    """Return a table for each column, for the steps from ``first`` on; tables may share numbers.

    A table uses the numbers of another table, times a constant factor, if the products are exactly the numbers of its
    own column. Because of this condition, the number of a step does not depend on how many steps the job has. Rounded
    products are used only if the tables would otherwise not fit into the job.
    """
    tables = _shared(columns, first, _exact_factor)
    if sum(len(table.values) for table, is_own in tables if is_own) > MOST_STEPS // 2:
        tables = _shared(columns, first, _near_factor)
    return [table for table, _ in tables]


def _shared(
    columns: Sequence[Array], first: int, factor_of: Callable[[Array, Array], float | None]
) -> list[tuple[StepTable, bool]]:
    """Return a table for each column, with a flag that is False if the table uses the numbers of another table."""
    tables: list[tuple[StepTable, bool]] = []
    for column in columns:
        factors = ((t, factor_of(column, t.values)) for t, is_own in tables if is_own)
        fitting = next(((t, f) for t, f in factors if f is not None), None)
        if fitting is None:
            tables.append((StepTable(column, first=first), True))
        else:
            tables.append((StepTable(fitting[0].values, fitting[1], first=first), False))
    return tables


def _exact_factor(column: Array, base: Array) -> float | None:
    factor = _near_factor(column, base)
    if factor is None:
        return None
    products = base.astype(np.float32) * np.float32(factor)
    return factor if np.array_equal(products, column.astype(np.float32)) else None


def _near_factor(column: Array, base: Array) -> float | None:
    """Return the factor from ``base`` to ``column``; None if the factors of the steps differ by more than rounding."""
    place = int(np.argmax(np.abs(base)))
    if len(base) == 1 or len(base) != len(column) or not np.isfinite(column).all():
        return None
    factor = float(column[place] / base[place])
    fits = factor > 0 and np.allclose(column, factor * base, rtol=1e-12, atol=0.0)
    return factor if fits else None


def check_length(steps: int) -> None:
    """Raise JobError if the table of a schedule would have more than ``MOST_STEPS`` entries."""
    if steps > MOST_STEPS:
        reason = f"its table would have {steps} entries, but a job has room for {MOST_STEPS:,}"
        remedy = f"use one learning rate for all steps, such as schedule=0.001, or at most {MOST_STEPS:,} steps"
        raise JobError("schedule", reason, remedy)
