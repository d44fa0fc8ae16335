"""The order of the data's rows in the batches of a job, as a field of the job's document."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Pattern, Size
from domain.readable import Readable
from pol.names import model_name
from pol.values import MAX_NAME

SHUFFLED, IN_ORDER, WEIGHTED = "shuffled", "in_order", "weighted"
"""The three orders: every row once per epoch, in random order; every row once per epoch, in the order of the data; and
rows drawn by weight.
"""

_Order = Annotated[
    str,
    Pattern(
        "an order of rows",
        "|".join((SHUFFLED, IN_ORDER, WEIGHTED)),
        f"use {SHUFFLED}, {IN_ORDER} or {WEIGHTED}",
    ),
]


@dataclass(frozen=True, slots=True)
class Sampling(Readable):
    """The order of the rows in training.

    ``weights`` is the name of the column of integer weights if ``order`` is ``weighted``; otherwise it is empty.

    Example::

        print(assay.read_job("my-job").document.sampling.order)
    """

    order: _Order = SHUFFLED
    weights: Annotated[str, Size(0, MAX_NAME)] = ""

    @property
    def words(self) -> str:
        """Description of the order, for display."""
        if self.order == WEIGHTED:
            return f"drawn by the weights in {model_name(self.weights)}"
        return "in order" if self.order == IN_ORDER else "shuffled in each epoch"


SHUFFLING = Sampling()
"""The default: a job whose document has no ``sampling`` shuffles its rows."""
