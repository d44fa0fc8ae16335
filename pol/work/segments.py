"""One segment of steps, the same for whoever trains and whoever checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pol.errors import (
    Cancelled,
    NotFinite,
    NotFiniteStep,
    OutOfRange,
    RangeError,
    StateError,
    StepFailed,
)
from pol.executor.interface import Backend, run
from pol.job.dataset import batch_at
from pol.job.document import JobDocument
from pol.job.load import LoadedJob
from pol.rules.commitment import boundary_root
from pol.state.arrays import Array, State
from pol.state.canonical import StateTree, freeze, state_specs, state_tree
from pol.values import TensorSpec, f32_bits
from pol.work.records import Boundary, Samples


@dataclass(frozen=True)
class SlotState:
    """What a slot is trained from: its global and its local state at a step, with their trees."""

    global_state: State
    local_state: State
    global_tree: StateTree
    local_tree: StateTree

    @property
    def root(self) -> bytes:
        """Boundary root of the two states."""
        return boundary_root(self.global_tree.root, self.local_tree.root)

    def boundary(self, index: int, step: int, metrics: tuple[int, ...]) -> Boundary:
        """Return these states as a boundary of a trace."""
        roots = self.global_tree.root, self.local_tree.root, self.root
        return Boundary(index, step, *roots, metrics)


def check_range(document: JobDocument, part: Samples) -> int:
    """Return the number of segments of a range.

    Raises RangeError when the range is not inside a round of the job, or does not start and end between segments.
    """
    unit, room = document.segment_samples, document.samples_per_round
    if not 0 <= part.round < document.rounds:
        raise RangeError(f"round {part.round} is outside the job's {document.rounds} rounds")
    if part.first < 0 or part.count < 1 or part.first + part.count > room:
        raise RangeError(f"{part} is outside a round of {room} samples")
    if part.first % unit or part.count % unit:
        raise RangeError(f"{part} does not start and end at multiples of {unit} samples")
    return part.count // unit


def check_state(state: State, specs: Sequence[TensorSpec], what: str) -> dict[str, Array]:
    """Return a state in canonical, read-only form; StateError unless it has exactly these tensors."""
    ordered = tuple(sorted(specs, key=lambda spec: spec.name.encode()))
    found = tuple(sorted(state_specs(state), key=lambda spec: spec.name.encode()))
    if found != ordered:
        raise StateError(what, "the tensors are not the ones that the job names")
    return freeze(state)


def slot_state(loaded: LoadedJob, opening: State, local: State) -> SlotState:
    """Return what two states make of a slot; StateError unless they are states of the job."""
    document = loaded.job.document
    first = check_state(opening, document.global_tensors, "global state")
    second = check_state(local, document.local_tensors, "local state")
    return SlotState(first, second, state_tree(first), state_tree(second))


def advance(
    loaded: LoadedJob, before: SlotState, position: int, backend: Backend
) -> tuple[SlotState, dict[str, Array]]:
    """Take one step at a position of the sample stream and return the state after it and the metrics.

    Raises NotFiniteStep when a result is not finite, and StepFailed when the step reads a row that does not exist.
    """
    document = loaded.job.document
    step = position // document.batch
    inputs = {f"global.{name}": array for name, array in before.global_state.items()}
    inputs.update({f"local.{name}": array for name, array in before.local_state.items()})
    inputs.update(batch_at(loaded.data, loaded.job, position))
    inputs["step"] = np.array(step, np.int64)
    try:
        outputs = run(document.step, inputs, document.seed, backend)
    except NotFinite as error:
        raise NotFiniteStep(step, error.field, error.reason) from None
    except OutOfRange as error:
        raise StepFailed(step, error.field, error.reason) from None
    global_state = merged(before.global_state, outputs, "global.")
    local_state = merged(before.local_state, outputs, "local.")
    after = SlotState(
        global_state,
        local_state,
        state_tree(global_state, before.global_tree, before.global_state),
        state_tree(local_state, before.local_tree, before.local_state),
    )
    return after, {name: outputs[f"metric.{name}"] for name in document.metrics}


def merged(before: State, outputs: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return a state with the outputs of a program put in; tensors without an output stay the same objects."""
    state = dict(before)
    for name, array in outputs.items():
        if name.startswith(prefix):
            array.flags.writeable = False
            state[name[len(prefix) :]] = array
    return state


def run_segment(
    loaded: LoadedJob,
    part: Samples,
    index: int,
    state: SlotState,
    backend: Backend,
    on_step: Callable[[int, float, SlotState], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[SlotState, Boundary]:
    """Take the steps of segment ``index`` of a range and return where they end.

    The caller has checked the range. ``on_step`` gets the step's number, its first metric and the state after it.
    """
    document = loaded.job.document
    unit = document.segment_samples
    start = part.round * document.samples_per_round + part.first + index * unit
    sums = [np.float64(0.0)] * len(document.metrics)
    for position in range(start, start + unit, document.batch):
        if cancelled is not None and cancelled():
            raise Cancelled
        state, metrics = advance(loaded, state, position, backend)
        values = [np.float64(metrics[name]) for name in document.metrics]
        sums = [total + value for total, value in zip(sums, values, strict=True)]
        if on_step is not None:
            on_step(position // document.batch, float(values[0]) if values else 0.0, state)
    means = (np.float32(total / np.float64(document.segment_length)) for total in sums)
    bits = tuple(f32_bits(float(mean + np.float32(0.0))) for mean in means)
    return state, state.boundary(index + 1, (start + unit) // document.batch, bits)
