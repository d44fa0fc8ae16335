"""All limits on a job; each is checked before memory of that size is allocated."""

from dataclasses import dataclass

from domain.limits import METRICS_MAX
from domain.readable import Readable

MAX_RANK = 8
"""Largest number of dimensions of a value."""
MAX_DIMENSION = 2**31 - 1
"""Largest size of one dimension."""
MAX_OPERANDS = 64
"""Largest number of operands of a node other than ``repeat`` (only ``concat`` takes more than three)."""
MAX_REPEATED = 10_000
"""Largest number of operands of a ``repeat``, which is also the largest number of inputs of its body.

A ``repeat`` that trains one part of a batch after another has two operands for each trained tensor.
"""
MAX_TURNS = 2**20
"""Largest number of turns of a ``repeat``."""
MAX_NESTED = 4
"""Largest depth of nested bodies. For example, a recurrent layer within two loops, in a step that trains one part of a
batch after another, has depth 4.
"""
MAX_SUMMED = 131_072
"""Largest summed dimension of a product. With a larger dimension, sums of products of INT8 digits could overflow
INT32.
"""
MAX_SITE = 2**31 - 1
"""Largest site of a ``uniform`` node; the upper half of the 32-bit range is for sample order and initial weights."""
MAX_INTEGER = 2**63 - 1
"""Largest integer that a document may hold."""


@dataclass(frozen=True, slots=True)
class Limits(Readable):
    """The limits on a job that a machine loads; fields whose names end in ``size`` are in bytes.

    ``json_tokens`` limits the opening brackets, commas and colons of the document; a node has about eleven of them.
    ``nodes`` limits the nodes of a program, and of each body in it. ``unrolled_nodes`` limits the nodes of a program
    after its repeats are written out. ``live_size`` limits the bytes that a program holds at once. For a step, these
    bytes include the batch and the order of an epoch's samples, which takes memory for each of the ``rows``; they count
    both states twice. How much of it a process may really use is limited where it runs.
    ``tensors`` limits the tensors of a state, since each costs time at every step. ``epochs_per_batch`` limits how many
    times one batch goes through the data, since each pass needs another order of the rows. The limits on rounds, slots,
    steps and segments are the same on every machine (``pol.rules.schedule.check_terms``).

    Example::

        job = assay.load_job("my-job", limits=assay.Limits(nodes=50_000))
    """

    document_size: int = 16 * 2**20
    json_tokens: int = 2**20
    json_depth: int = 22
    nodes: int = 20_000
    unrolled_nodes: int = 20_000_000
    inputs: int = 10_000
    constants_size: int = 2**20
    value_elements: int = 2**28
    live_size: int = 512 * 2**30
    tensors: int = 4_096
    state_size: int = 64 * 2**30
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
