"""Every cap on a job, in one place; all are checked before anything of that size is allocated."""

from dataclasses import dataclass

from domain.limits import METRICS_MAX
from domain.readable import Readable

MAX_RANK = 8
"""Dimensions of a value."""
MAX_DIMENSION = 2**31 - 1
"""Size of one dimension."""
MAX_OPERANDS = 64
"""Operands of one node (only ``concat`` takes more than three, and ``repeat`` even more)."""
MAX_REPEATED = 10_000
"""Operands of a ``repeat``: as many as its body may have inputs, so that a batch can be gone through in parts, which
takes two for each tensor that is trained.
"""
MAX_TURNS = 2**20
"""Turns of a ``repeat``."""
MAX_NESTED = 4
"""Bodies within one another: a recurrent layer in a loop in a loop, for one part of a batch after another."""
MAX_SUMMED = 131_072
"""Summed dimension of a product: above it, four INT8 digit products would overflow INT32."""
MAX_SITE = 2**31 - 1
"""Largest site of a ``uniform`` node; the upper half belongs to sample order and initial weights.
"""
MAX_INTEGER = 2**63 - 1
"""Largest integer that a document may hold."""


@dataclass(frozen=True, slots=True)
class Limits(Readable):
    """Caps on a job that a machine is willing to load (sizes in bytes where not said otherwise).

    ``nodes`` caps those of a program, and of each body in it; ``unrolled_nodes`` those that it has once its repeats
    are written out. ``live_size`` caps what a program has at once, and for a step also its batch and the order of
    an epoch's samples, an array as long as there are ``rows``. ``tensors`` caps a state's, each of which costs time
    at every step. A batch goes through the data ``epochs_per_batch`` times at most, for each time is an order of
    its own. How many rounds, slots, steps and segments there may be is the same everywhere
    (``pol.rules.schedule.check_terms``).

    Example::

        job = assay.load_job("my-job", limits=assay.Limits(nodes=50_000))
    """

    document_size: int = 16 * 2**20
    json_depth: int = 22
    nodes: int = 20_000
    unrolled_nodes: int = 20_000_000
    inputs: int = 10_000
    constants_size: int = 2**20
    value_elements: int = 2**28
    live_size: int = 8 * 2**30
    tensors: int = 4_096
    state_size: int = 4 * 2**30
    columns: int = 64
    shards: int = 10_000
    shard_size: int = 2**30
    data_size: int = 8 * 2**30
    rows: int = 2**27
    epochs_per_batch: int = 2
    metrics: int = METRICS_MAX
    header_size: int = 2**20


LIMITS = Limits()
"""The limits of a default installation."""
