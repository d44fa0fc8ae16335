"""The kinds of update that a slot makes at the end of a round, as a table.

A row has all that a job's document determines about its updates: their tensors, the inputs that ``outer`` gets from
them, and the work and the memory of making these inputs. ``pol/work/updates`` has a row per kind that computes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from pol.job.program import Program
from pol.ops.primitive import FLOPS_PER_CALL
from pol.values import TensorSpec, TensorType

CLOSING, DIFFERENCE, CODED = "closing", "difference", "coded"
"""Names of the kinds.

``closing``: the slot's tensors at the end of a round. ``difference``: RN32(tensors at the round's beginning - tensors
at its end). ``coded``: the tensors that the job's program ``close`` computes. Of the first two kinds, ``outer`` gets
the mean over the slots; of the third, the tensors of all slots.
"""
AGGREGATE, UPDATES = "aggregate", "updates"
"""Prefixes of the inputs of ``outer``: means over the slots, and tensors of all slots in slot order."""
OPENING, END, LOCAL, UPDATE = "opening", "closing", "local", "update"
"""Prefixes of the inputs and outputs of ``close``."""

MEAN_WORK = 60
"""FLOPs per element of an update that is averaged. Each element is converted to FP64, weighted and added."""
MEAN_CALLS = 64
"""Calls per tensor of an update that is averaged. Each tensor is checked, copied, converted, weighted and added."""
STACK_WORK = 4
"""FLOPs per byte of an update that is put beside the updates of other slots. Its bytes are checked and copied."""


class Updating(Protocol):
    """The fields of a job document that decide what its updates are."""

    @property
    def slots(self) -> int:
        """Number of slots."""

    @property
    def aggregation(self) -> str:
        """Name of the kind of update."""

    @property
    def global_tensors(self) -> Sequence[TensorSpec]:
        """Tensors of the global state."""

    @property
    def step(self) -> Program:
        """The program of one training step."""

    @property
    def close(self) -> Program | None:
        """The program that codes an update at the end of a round; None if updates are not coded."""


@dataclass(frozen=True, slots=True)
class UpdateKind:
    """A kind of update.

    - ``reads_opening``: whether an update depends on the global state at the round's beginning.
    - ``is_coded``: whether the job's program ``close`` computes the update.
    - ``tensors``: the tensors of an update, in name order.
    - ``inputs``: the types of the inputs that ``outer`` gets from the updates of all slots.
    - ``work``: the FLOPs of making these inputs.
    - ``size``: the number of bytes that making them holds at once, without the memory of ``outer``.
    """

    reads_opening: bool
    is_coded: bool
    tensors: Callable[[Updating], tuple[TensorSpec, ...]]
    inputs: Callable[[Updating], dict[str, TensorType]]
    work: Callable[[Updating], int]
    size: Callable[[Updating], int]


def changed_tensors(step: Program, tensors: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the members of ``tensors`` that the program ``step`` changes, in name order.

    ``tensors`` are the tensors of the global state.
    """
    changed = step.changed_outputs()
    return tuple(sorted((s for s in tensors if f"global.{s.name}" in changed), key=lambda spec: spec.name))


# --- averaged ------------------------------------------------------------------------------------


def _changed(job: Updating) -> tuple[TensorSpec, ...]:
    return changed_tensors(job.step, job.global_tensors)


def _means(job: Updating) -> dict[str, TensorType]:
    return {f"{AGGREGATE}.{spec.name}": spec.type for spec in _changed(job)}


def _mean_work(job: Updating) -> int:
    tensors = _changed(job)
    calls = job.slots * MEAN_CALLS * len(tensors)
    return FLOPS_PER_CALL * calls + job.slots * sum(MEAN_WORK * s.type.elements + s.type.size for s in tensors)


def _mean_size(job: Updating) -> int:
    """Return the bytes of the sum of the updates in FP64, of one update in its stored form, and of the mean."""
    tensors = _changed(job)
    largest = max((spec.type.elements for spec in tensors), default=0)
    # The largest tensor, in canonical form.
    return sum(8 * spec.type.elements + 2 * spec.type.size for spec in tensors) + 8 * largest


# --- coded ---------------------------------------------------------------------------------------


def _codes(job: Updating) -> tuple[TensorSpec, ...]:
    assert job.close is not None
    outputs = job.close.output_types()
    specs = (
        TensorSpec(name.removeprefix(f"{UPDATE}."), value.dtype, value.shape)
        for name, value in outputs.items()
        if name.startswith(f"{UPDATE}.")
    )
    return tuple(sorted(specs, key=lambda spec: spec.name))


def _stacks(job: Updating) -> dict[str, TensorType]:
    return {f"{UPDATES}.{s.name}": TensorType(s.dtype, (job.slots, *s.shape)) for s in _codes(job)}


def _stack_work(job: Updating) -> int:
    tensors = _codes(job)
    calls = job.slots * MEAN_CALLS * len(tensors)
    return FLOPS_PER_CALL * calls + job.slots * STACK_WORK * sum(spec.type.size for spec in tensors)


def _stack_size(job: Updating) -> int:
    """Return the bytes of one update in its stored form; ``outer`` counts the updates of all slots as its inputs."""
    return 2 * sum(spec.type.size for spec in _codes(job))


KINDS: Mapping[str, UpdateKind] = MappingProxyType(
    {
        CLOSING: UpdateKind(
            reads_opening=False, is_coded=False, tensors=_changed, inputs=_means, work=_mean_work, size=_mean_size
        ),
        DIFFERENCE: UpdateKind(
            reads_opening=True, is_coded=False, tensors=_changed, inputs=_means, work=_mean_work, size=_mean_size
        ),
        CODED: UpdateKind(
            reads_opening=True, is_coded=True, tensors=_codes, inputs=_stacks, work=_stack_work, size=_stack_size
        ),
    }
)
"""The kinds of update by their names in a job document."""


def kind_of(job: Updating) -> UpdateKind:
    """Return the kind of a job's updates."""
    return KINDS[job.aggregation]
