"""Numbers that vary by step, written out when a job is built; a step looks them up."""

from collections.abc import Sequence

import numpy as np
import torch

from pol.errors import JobError
from pol.limits import LIMITS
from pol.state.arrays import Array

MOST_STEPS = LIMITS.constants_size // 4
"""Entries of a table, which is a constant of the job."""


class Table:
    """A number by step; a single one is every step's."""

    def __init__(
        self, values: Sequence[float] | Array, factor: float = 1.0, steps: int | None = None
    ) -> None:
        """Keep ``values``, which are multiplied by ``factor``; if there are more ``steps``, the last one stays."""
        self.values = np.asarray(values, np.float64)
        if bool((self.values == self.values[0]).all()):
            self.values, factor = self.values[:1] * factor, 1.0
        self._factor, self._ends = factor, steps is not None and len(self.values) < steps
        self._numbers = torch.from_numpy(self.values.astype(np.float32))

    @property
    def is_constant(self) -> bool:
        """Whether all steps have the same number."""
        return len(self.values) == 1

    @property
    def is_finite(self) -> bool:
        """Whether FP32 holds all of its numbers."""
        return bool(torch.isfinite(self._numbers).all())

    def at(self, step: torch.Tensor) -> torch.Tensor:
        """Return the number of a step (an integer of shape ()) as FP32 of shape ()."""
        if self.is_constant:
            return self._numbers[0].clone()
        place = torch.clamp(step, max=len(self.values) - 1) if self._ends else step
        found = torch.index_select(self._numbers, 0, place.reshape(1)).reshape(())
        return found if self._factor == 1.0 else found * self._factor


def share_tables(columns: Sequence[Array]) -> list[Table]:
    """Return a table for each column; one that is another's by a constant factor takes that one's numbers."""
    tables: list[Table] = []
    for column in columns:
        found = next((t for t in tables if _factor(column, t.values) is not None), None)
        factor = None if found is None else _factor(column, found.values)
        tables.append(Table(column) if factor is None or found is None else _scaled(found, factor))
    return tables


def _scaled(table: Table, factor: float) -> Table:
    return Table(table.values, factor)


def _factor(column: Array, base: Array) -> float | None:
    """Return by how much ``column`` is ``base``, in all steps; None where that is no constant."""
    place = int(np.argmax(np.abs(base)))
    if len(base) == 1 or len(base) != len(column) or not np.isfinite(column).all():
        return None
    factor = float(column[place] / base[place])
    fits = factor > 0 and np.allclose(column, factor * base, rtol=1e-12, atol=0.0)
    return factor if fits else None


def check_length(steps: int) -> None:
    """Refuse a schedule that a job has no room for."""
    if steps > MOST_STEPS:
        reason = f"its table would have {steps} entries"
        remedy = f"give one number, or a job of at most {MOST_STEPS:,} steps"
        raise JobError("schedule", reason, remedy)
