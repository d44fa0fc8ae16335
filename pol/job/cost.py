"""What a job costs, in FLOPs and in bytes, from its document alone.

Work is what an order pays for and what bounds the time of whoever trains, replays or audits, so it must tell the truth
about time: a step is more than its program. Beside the nodes (``pol/ops``), a step gathers the rows of its batch, needs
the sample order of its epoch, and brings what it changed into canonical form and hashes it; a round has boundaries and
an aggregation. Total work of a job is

    rounds x (slots x (round steps x step work + segments x boundary work) + outer work)

All numbers are integers and functions of the document; loading recomputes what the document says of them.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Protocol

from domain.amount import ceil_div
from pol.job.program import Program
from pol.job.sampling import IN_ORDER, SHUFFLED, WEIGHTED, Sampling
from pol.ops.philox import PART_POSITIONS
from pol.ops.primitive import FLOPS_PER_CALL
from pol.ops.table import PRIMITIVES
from pol.state.layout import encoded_size
from pol.values import TensorSpec, TensorType

ORDER_WORK = 5_000
"""FLOPs of the sample order of an epoch for each row: its draws, and sorting them."""
WEIGHT_WORK = 500
"""FLOPs for each row whose weight is read and added up, so that rows can be drawn by weight."""
DRAW_WORK = 2_000
"""FLOPs of drawing a place among the weights, and of each halving of the rows in which it is then found."""
PLACE_WORK = 200
"""FLOPs for each position of a stream that takes the rows in their own order."""
HASH_WORK = 48
"""FLOPs for each byte of a changed tensor: made canonical, compared with what it was, and hashed."""
EPOCHS_OF_BATCH = 2
"""Epochs that one batch comes through at most (``Limits.epochs_per_batch``)."""
INPUT_WORK = 4
"""FLOPs for each byte that a program is given: an executor with a memory of its own copies it there."""
INPUT_CALLS = 2
"""Calls for each tensor that a program reads."""
TENSOR_CALLS = 70
"""Calls for each tensor of a state that a program writes: checked, copied, and hashed as a chunk of its own."""
MEAN_WORK = 60
"""FLOPs for each element of each update that is averaged: made FP64, weighted, added."""
MEAN_CALLS = 64
"""Calls for each tensor of each update that is averaged: checked, copied, and what ``MEAN_WORK`` says."""
ORDER_SIZES = MappingProxyType({SHUFFLED: 36, WEIGHTED: 8, IN_ORDER: 0})
"""Bytes for each row of the data. Shuffled, while an epoch is sorted: two orders that are remembered, draws, a new
order, and room to sort; by weight: the sum of the weights up to the row.
"""
POSITION_SIZE = 36
"""Bytes for each row of a batch while it is found."""
BLOCKS_SIZE = 64 * 2**20
"""Bytes that an executor takes at most beside everything that is counted: blocks of functions, buffers of products."""


class Costed(Protocol):
    """What of a job document its cost depends on."""

    @property
    def batch(self) -> int:
        """Rows of a batch."""

    @property
    def slots(self) -> int:
        """Slots that take turns at the stream of samples."""

    @property
    def segment_steps(self) -> int:
        """Steps of a segment."""

    @property
    def columns(self) -> Sequence[TensorSpec]:
        """Columns of the data; shapes without the row."""

    @property
    def rows(self) -> int:
        """Rows of the data."""

    @property
    def sampling(self) -> Sampling:
        """The order in which training takes the rows."""

    @property
    def global_tensors(self) -> Sequence[TensorSpec]:
        """Tensors of the global state."""

    @property
    def local_tensors(self) -> Sequence[TensorSpec]:
        """Tensors of the local state of a slot."""

    @property
    def step(self) -> Program:
        """One step of training."""

    @property
    def outer(self) -> Program:
        """The end of a round."""

    @property
    def slot_states_size(self) -> int:
        """Bytes of the local states that slots begin with where they are not all the same; otherwise 0."""


def step_work(job: Costed) -> int:
    """Return the FLOPs of one step: its program, its batch, its part of an epoch's order, and its new state."""
    return job.step.work.flops + gather_work(job) + order_work(job) + state_work(job)


def outer_work(job: Costed) -> int:
    """Return the FLOPs of one aggregation: the mean of every slot's update, ``outer``, and the next global state."""
    updated = _updated(job)
    calls = job.slots * MEAN_CALLS * len(updated)
    mean = job.slots * sum(MEAN_WORK * value.elements + value.size for value in updated)
    hashed = HASH_WORK * encoded_size(job.global_tensors)
    return mean + FLOPS_PER_CALL * calls + job.outer.work.flops + _tensors_work(job.outer, job.global_tensors) + hashed


def boundary_work(job: Costed) -> int:
    """Return the FLOPs of one boundary: one for each byte of the global and the local state."""
    return global_size(job) + local_size(job)


def global_size(job: Costed) -> int:
    """Return the bytes of the global state in canonical form."""
    return encoded_size(job.global_tensors)


def local_size(job: Costed) -> int:
    """Return the bytes of a slot's local state in canonical form."""
    return encoded_size(job.local_tensors)


def update_size(job: Costed) -> int:
    """Return the bytes of a slot's update in canonical form: the global tensors that a step changes."""
    changed = job.step.changed_outputs()
    return encoded_size([spec for spec in job.global_tensors if f"global.{spec.name}" in changed])


def running_size(job: Costed) -> int:
    """Return the bytes that a step has at once on any executor: batch, sample order, and what its program needs."""
    batch = sum(value.size for value in batch_types(job.columns, job.batch).values())
    order = ORDER_SIZES[job.sampling.order] * job.rows + POSITION_SIZE * job.batch
    return batch + order + job.step.peak_size


def aggregation_size(job: Costed) -> int:
    """Return the bytes that the end of a round has at once, however many slots there are.

    Those are the sum of the updates in FP64, one update as it came, their mean, and ``outer``.
    """
    updated = _updated(job)
    total = sum(8 * value.elements + 2 * value.size for value in updated)
    largest = max((value.elements for value in updated), default=0)
    # a tensor in canonical form
    return total + 8 * largest + job.outer.peak_size


def memory_size(job: Costed) -> int:
    """Return the bytes that a process needs to train, replay or aggregate a job with whichever executor.

    Those are both states, twice (what was loaded, and what a step begins with), the most that a step or an aggregation
    has beside them, and ``BLOCKS_SIZE``. Data stay on disk. The interpreter and its libraries are not counted. Where
    slots begin with states of their own, that of one slot is read as well.
    """
    states = 2 * (global_size(job) + local_size(job))
    if job.slot_states_size:
        states += local_size(job)
    return states + max(running_size(job), aggregation_size(job)) + BLOCKS_SIZE


def batch_types(columns: Sequence[TensorSpec], batch: int) -> dict[str, TensorType]:
    """Return the types of the inputs that a batch of the data is."""
    return {f"batch.{spec.name}": TensorType(spec.dtype, (batch, *spec.shape)) for spec in columns}


def _updated(job: Costed) -> list[TensorType]:
    """Return the types of the global tensors that a step changes: those of an update."""
    changed = job.step.changed_outputs()
    return [value for name, value in changed.items() if name.startswith("global.")]


def gather_work(job: Costed) -> int:
    """Return the FLOPs of gathering a batch: every column, whether the step reads it or not."""
    take, index = PRIMITIVES["take"], TensorType("i64", (job.batch,))
    work = 0
    for column in job.columns:
        table = TensorType(column.dtype, (job.rows, *column.shape))
        result = TensorType(column.dtype, (job.batch, *column.shape))
        work += take.work((table, index), {}, result).flops
    return work


def whole_order_work(order: str, rows: int) -> int:
    """Return the FLOPs that a segment's replay takes for its first sample, whatever follows."""
    if order == IN_ORDER:
        return 0
    if order == WEIGHTED:
        return WEIGHT_WORK * rows + DRAW_WORK * PART_POSITIONS
    return ORDER_WORK * rows


def order_work(job: Costed) -> int:
    """Return a step's part of what it takes to know the rows of its segment's batches, all of which a replay finds out.

    Shuffled, those are the sample orders of the epochs that the segment comes through; by weight, the sums of all
    weights, the places that are drawn, and their rows. Slots take turns at the stream, so a segment goes as fast
    through it as all of them together.
    """
    positions = job.segment_steps * job.slots * job.batch
    if job.sampling.order == IN_ORDER:
        return PLACE_WORK * job.batch
    if job.sampling.order == WEIGHTED:
        parts = min(
            ceil_div(positions, PART_POSITIONS) + 1,
            job.segment_steps * (ceil_div(job.batch, PART_POSITIONS) + 1),
        )
        before = WEIGHT_WORK * job.rows + DRAW_WORK * PART_POSITIONS * parts
        found = DRAW_WORK * job.rows.bit_length() * job.batch
        return ceil_div(before, job.segment_steps) + found
    epochs = min(ceil_div(positions, job.rows), job.segment_steps * EPOCHS_OF_BATCH)
    return ORDER_WORK * max(job.batch, ceil_div(job.rows * epochs, job.segment_steps))


def state_work(job: Costed) -> int:
    """Return the FLOPs of reading the tensors of a step, and of checking and hashing those that it writes."""
    return _tensors_work(job.step, (*job.global_tensors, *job.local_tensors))


def _tensors_work(program: Program, tensors: Sequence[TensorSpec]) -> int:
    """Return the FLOPs of reading a program's inputs, and of checking and hashing the state that it writes.

    Every tensor of the state counts as read, for its spec is looked at even where nothing happens to it.
    """
    outputs = program.output_types()
    calls = INPUT_CALLS * (len(program.inputs) + len(tensors)) + TENSOR_CALLS * len(outputs)
    given = INPUT_WORK * sum(spec.type.size for spec in program.inputs)
    written = HASH_WORK * sum(value.size for value in outputs.values())
    return FLOPS_PER_CALL * calls + given + written
