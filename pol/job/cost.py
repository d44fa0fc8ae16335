"""The cost of a job in FLOPs and in bytes, computed from its document alone.

An order pays per unit of work, and the time limits for training, replay and audits follow from the work. Work must
therefore match the time that a job takes, which is more than the time of its programs. In addition to the nodes of its
program (``pol/ops``), a step gathers the rows of its batch and computes the sample order of its epoch. It also brings
the tensors that it changed into canonical form and hashes them. A round has boundaries, updates and an aggregation. The
total work of a job is

    rounds x (slots x (round steps x step work + segments x boundary work + close work) + outer work)

All numbers are integers and functions of the document. Loading a job recomputes the numbers in its document.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Protocol

from domain.amount import ceil_div
from pol.job.program import Program
from pol.job.sampling import IN_ORDER, SHUFFLED, WEIGHTED, Sampling
from pol.job.updates import changed_tensors, kind_of
from pol.ops.philox import PART_POSITIONS
from pol.ops.primitive import FLOPS_PER_CALL
from pol.ops.table import PRIMITIVES
from pol.state.layout import encoded_size
from pol.values import TensorSpec, TensorType

ORDER_WORK = 5_000
"""FLOPs per row for the sample order of an epoch: drawing numbers and sorting them."""
WEIGHT_WORK = 500
"""FLOPs per row for reading and adding the row's weight, if rows are drawn by weight."""
DRAW_WORK = 2_000
"""FLOPs of drawing a number below the sum of all weights, and of each step of the binary search for its row."""
PLACE_WORK = 200
"""FLOPs per position of a stream that takes the rows in their own order."""
HASH_WORK = 48
"""FLOPs per byte of a changed tensor, which is made canonical, compared with its old value, and hashed."""
EPOCHS_OF_BATCH = 2
"""Largest number of epochs from which one batch takes rows (``Limits.epochs_per_batch``)."""
INPUT_WORK = 4
"""FLOPs per byte of a program's inputs, because a back end with its own memory copies the inputs into it."""
INPUT_CALLS = 2
"""Calls per tensor that a program reads."""
TENSOR_CALLS = 70
"""Calls per tensor of a state that a program writes. Each such tensor is checked, copied, and hashed in chunks of its
own.
"""
ORDER_SIZES = MappingProxyType({SHUFFLED: 36, WEIGHTED: 8, IN_ORDER: 0})
"""Bytes per row of the data that the sample order needs.

If rows are shuffled, these bytes hold two cached orders. While a third order is sorted, they also hold its draws, the
order itself and working memory. If rows are drawn by weight, they hold the sum of the weights up to each row.
"""
POSITION_SIZE = 36
"""Bytes per row of a batch while the row numbers are computed."""
BLOCKS_SIZE = 64 * 2**20
"""Largest number of bytes that a back end needs in addition to all other figures: for function blocks and product
buffers.
"""


class Costed(Protocol):
    """The fields of a job document that decide the job's cost."""

    @property
    def batch(self) -> int:
        """Number of rows in a batch."""

    @property
    def slots(self) -> int:
        """Number of slots. The slots take batches from one stream of samples in turn."""

    @property
    def segment_steps(self) -> int:
        """Number of steps in a segment."""

    @property
    def columns(self) -> Sequence[TensorSpec]:
        """Columns of the data; their shapes omit the row dimension."""

    @property
    def rows(self) -> int:
        """Number of rows in the data."""

    @property
    def sampling(self) -> Sampling:
        """The order of the rows in training."""

    @property
    def global_tensors(self) -> Sequence[TensorSpec]:
        """Tensors of the global state."""

    @property
    def local_tensors(self) -> Sequence[TensorSpec]:
        """Tensors of the local state of a slot."""

    @property
    def step(self) -> Program:
        """The program of one training step."""

    @property
    def close(self) -> Program | None:
        """The program that codes an update at the end of a round; None if updates are not coded."""

    @property
    def aggregation(self) -> str:
        """Name of the kind of update."""

    @property
    def outer(self) -> Program:
        """The program that computes the next global state at the end of a round."""

    @property
    def slot_states_size(self) -> int:
        """Size in bytes of the slots' initial local states if these differ; otherwise 0."""


def step_work(job: Costed) -> int:
    """Return the FLOPs of one training step.

    The work covers the step's program, its batch, its part of the sample order, and the hashing of its new state.
    """
    return job.step.work.flops + gather_work(job) + order_work(job) + state_work(job)


def outer_work(job: Costed) -> int:
    """Return the FLOPs of one aggregation.

    The work covers the reading and combining of the slots' updates, the program ``outer``, and the hashing of the next
    global state.
    """
    hashed = HASH_WORK * encoded_size(job.global_tensors)
    return kind_of(job).work(job) + job.outer.work.flops + _tensors_work(job.outer, job.global_tensors) + hashed


def close_work(job: Costed) -> int:
    """Return the FLOPs of ``close`` at the end of a share: its program, its inputs, and the hashing of its outputs.

    Without ``close``, the boundaries' work covers the update.
    """
    if job.close is None:
        return 0
    return job.close.work.flops + _tensors_work(job.close, (*job.global_tensors, *job.local_tensors))


def boundary_work(job: Costed) -> int:
    """Return the FLOPs of one boundary: one FLOP per byte of the global and the local state."""
    return global_size(job) + local_size(job)


def global_size(job: Costed) -> int:
    """Return the size of the global state in canonical form, in bytes."""
    return encoded_size(job.global_tensors)


def local_size(job: Costed) -> int:
    """Return the size of a slot's local state in canonical form, in bytes."""
    return encoded_size(job.local_tensors)


def update_size(job: Costed) -> int:
    """Return the size of a slot's update in canonical form, in bytes."""
    return encoded_size(kind_of(job).tensors(job))


def plain_update_size(job: Costed) -> int:
    """Return the size that an update would have in FP32, in bytes: that of the global tensors that a step changes."""
    return encoded_size(changed_tensors(job.step, job.global_tensors))


def running_size(job: Costed) -> int:
    """Return the number of bytes that a step holds at once on any executor.

    These bytes hold the batch, the sample order, and the values of the step's program.
    """
    batch = sum(value.size for value in batch_types(job.columns, job.batch).values())
    order = ORDER_SIZES[job.sampling.order] * job.rows + POSITION_SIZE * job.batch
    return batch + order + job.step.peak_size


def aggregation_size(job: Costed) -> int:
    """Return the number of bytes that the end of a round holds at once.

    These bytes hold what combining the updates needs, and the memory of ``outer``. If updates are averaged, the number
    does not depend on the number of slots; if they are coded, ``outer`` reads the codes of all slots.
    """
    return kind_of(job).size(job) + job.outer.peak_size


def closing_size(job: Costed) -> int:
    """Return the number of bytes that ``close`` holds at once: the memory of its program."""
    return 0 if job.close is None else job.close.peak_size


def memory_size(job: Costed) -> int:
    """Return the number of bytes that a process needs to train, replay or aggregate a job, on any executor.

    These bytes hold both states twice (as loaded, and as a step's input), the largest additional memory of a step, an
    update or an aggregation, and ``BLOCKS_SIZE``. The data stay on disk. The interpreter and its libraries are not
    counted. If each slot begins with its own state, the state of one slot is counted as well.
    """
    states = 2 * (global_size(job) + local_size(job))
    if job.slot_states_size:
        states += local_size(job)
    return states + max(running_size(job), closing_size(job), aggregation_size(job)) + BLOCKS_SIZE


def batch_types(columns: Sequence[TensorSpec], batch: int) -> dict[str, TensorType]:
    """Return the type of each column of a batch. The keys are the names of a program's inputs (``batch.<column>``)."""
    return {f"batch.{spec.name}": TensorType(spec.dtype, (batch, *spec.shape)) for spec in columns}


def gather_work(job: Costed) -> int:
    """Return the FLOPs of gathering a batch from the data. Every column counts, even if the step does not read it."""
    take, index = PRIMITIVES["take"], TensorType("i64", (job.batch,))
    work = 0
    for column in job.columns:
        table = TensorType(column.dtype, (job.rows, *column.shape))
        result = TensorType(column.dtype, (job.batch, *column.shape))
        work += take.work((table, index), {}, result).flops
    return work


def whole_order_work(order: str, rows: int) -> int:
    """Return the FLOPs that a replay spends on the sample order before it has its first sample.

    ``order`` is the kind of order, and ``rows`` is the number of rows in the data.
    """
    if order == IN_ORDER:
        return 0
    if order == WEIGHTED:
        return WEIGHT_WORK * rows + DRAW_WORK * PART_POSITIONS
    return ORDER_WORK * rows


def order_work(job: Costed) -> int:
    """Return the FLOPs per step of computing the row numbers of a segment's batches.

    A replay of a segment computes the rows of all its batches. If rows are shuffled, it computes the sample orders of
    the epochs from which the segment takes rows. If rows are drawn by weight, it computes the sums of all weights, the
    drawn numbers, and their rows. The slots take turns in one stream, so the positions of a segment's batches span the
    batches of all slots.
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
        search = DRAW_WORK * job.rows.bit_length() * job.batch
        return ceil_div(before, job.segment_steps) + search
    epochs = min(ceil_div(positions, job.rows), job.segment_steps * EPOCHS_OF_BATCH)
    return ORDER_WORK * max(job.batch, ceil_div(job.rows * epochs, job.segment_steps))


def state_work(job: Costed) -> int:
    """Return the FLOPs that a step spends on its states.

    A step reads the tensors of its states, and checks and hashes the tensors that it writes.
    """
    return _tensors_work(job.step, (*job.global_tensors, *job.local_tensors))


def _tensors_work(program: Program, tensors: Sequence[TensorSpec]) -> int:
    """Return the FLOPs of reading a program's inputs, and of checking and hashing the tensors that it writes.

    Every tensor of the state counts as read, because its name and type are examined even if the program does not use
    the tensor.
    """
    outputs = program.output_types()
    calls = INPUT_CALLS * (len(program.inputs) + len(tensors)) + TENSOR_CALLS * len(outputs)
    reading = INPUT_WORK * sum(spec.type.size for spec in program.inputs)
    hashing = HASH_WORK * sum(value.size for value in outputs.values())
    return FLOPS_PER_CALL * calls + reading + hashing
