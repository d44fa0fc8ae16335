"""Trying the loss in plain torch before it is traced.

A traced program meets the data only when it trains. A label outside the classes would simply have no loss there, so
the loss is computed once on the rows whose integers are the smallest and the largest of their columns.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from pol.errors import JobError
from pol.state.arrays import Array
from pol.tracing.functions import measured, training_mode
from pol.tracing.origin import line_of_error
from pol.tracing.spec import JobSpec


def try_loss(spec: JobSpec, state: Mapping[str, torch.Tensor], data: Mapping[str, Array]) -> None:
    """Compute the loss of a few rows of ``data`` without dropout.

    Raises JobError, with torch's own reason and the line, when torch cannot compute it.
    """
    # a forward pass may write
    weights = {name: tensor.clone() for name, tensor in state.items()}
    with training_mode(spec.model, False), torch.no_grad():
        for rows in _batches(data, spec.batch):
            batch = {name: torch.from_numpy(column[rows]) for name, column in data.items()}
            try:
                measured(spec.model, spec.loss, weights, batch, "loss")
            except JobError:
                raise
            except Exception as error:
                reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
                raise JobError(
                    line_of_error(error),
                    f"the loss of a batch that holds row {rows[0]} fails: {reason}",
                    "check the model, the loss and the values of the data",
                ) from error


def _batches(data: Mapping[str, Array], batch: int) -> Iterator[Array]:
    """Yield the numbers of ``batch`` rows (one of them over and over) for each row that is tried."""
    rows = {0}
    for column in data.values():
        if column.dtype == np.int64 and column.size:
            width = column.size // len(column)
            rows |= {int(column.argmin()) // width, int(column.argmax()) // width}
    for row in sorted(rows):
        yield np.full(batch, row)
