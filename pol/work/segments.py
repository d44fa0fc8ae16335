"""One segment of steps, the same for whoever trains and whoever checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pol.executor.backend import Backend
from pol.executor.data import batch_at
from pol.executor.errors import OutOfRange
from pol.executor.run import run
from pol.job.document import JobDocument
from pol.job.load import LoadedJob
from pol.rules.commitment import boundary_root
from pol.state.arrays import Array, State
from pol.state.canonical import StateTree, freeze, state_specs, state_tree
from pol.state.errors import NotFinite, StateError
from pol.values import TensorSpec
from pol.work.records import Boundary, Cancelled, NotFiniteStep, Range, RangeError, StepFailed


@dataclass(frozen=True)
class Place:
    """Both states at a step, with their trees."""

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
        return Boundary(
            index, step, self.global_tree.root, self.local_tree.root, self.root, metrics
        )


def check_range(document: JobDocument, wanted: Range) -> int:
    """Return the number of segments of a range.

    Raises:
        RangeError: the range is not inside a round of the job, or does not start and end between segments.
    """
    unit = document.batch * document.segment_length
    if not 0 <= wanted.round < document.rounds:
        raise RangeError(f"Round {wanted.round} is outside the job's {document.rounds} rounds.")
    if (
        wanted.first < 0
        or wanted.count < 1
        or wanted.first + wanted.count > document.samples_per_round
    ):
        raise RangeError(f"{wanted} is outside a round of {document.samples_per_round} samples.")
    if wanted.first % unit or wanted.count % unit:
        raise RangeError(f"{wanted} does not start and end at multiples of {unit} samples.")
    return wanted.count // unit


def check_state(state: State, specs: Sequence[TensorSpec], what: str) -> dict[str, Array]:
    """Return a state in canonical, read-only form; StateError unless it has exactly these tensors."""
    ordered = tuple(sorted(specs, key=lambda spec: spec.name.encode()))
    found = tuple(sorted(state_specs(state), key=lambda spec: spec.name.encode()))
    if found != ordered:
        raise StateError(what, "The tensors are not the ones that the job names.")
    return freeze(state)


def opening_place(loaded: LoadedJob, opening: State, local: State) -> Place:
    """Return the place that two states describe, which must be states of the job."""
    document = loaded.job.document
    first = check_state(opening, document.global_tensors, "global state")
    second = check_state(local, document.local_tensors, "local state")
    return Place(first, second, state_tree(first), state_tree(second))


def advance(
    loaded: LoadedJob, place: Place, position: int, backend: Backend
) -> tuple[Place, dict[str, Array]]:
    """Take one step at a position of the sample stream and return the next place and the metrics.

    Raises:
        NotFiniteStep: a result is not finite.
        StepFailed: the step reads a row that does not exist.
    """
    document = loaded.job.document
    step = position // document.batch
    inputs: dict[str, Array] = {
        f"global.{name}": array for name, array in place.global_state.items()
    }
    inputs.update({f"local.{name}": array for name, array in place.local_state.items()})
    inputs.update(batch_at(loaded.data, loaded.job, position))
    inputs["step"] = np.array(step, np.int64)
    try:
        outputs = run(document.step, inputs, document.seed, backend)
    except NotFinite as error:
        raise NotFiniteStep(error.reason, step, error.where) from None
    except OutOfRange as error:
        raise StepFailed(error.reason, step, error.where) from None
    global_state = merged(place.global_state, outputs, "global.")
    local_state = merged(place.local_state, outputs, "local.")
    following = Place(
        global_state,
        local_state,
        state_tree(global_state, place.global_tree, place.global_state),
        state_tree(local_state, place.local_tree, place.local_state),
    )
    return following, {name: outputs[f"metric.{name}"] for name in document.metrics}


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
    wanted: Range,
    index: int,
    place: Place,
    backend: Backend,
    on_step: Callable[[int, float, Place], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[Place, Boundary]:
    """Take the steps of segment ``index`` of a range and return where they end.

    The caller has checked the range. ``on_step`` gets the step's number, its first metric and the place after it.
    """
    document = loaded.job.document
    unit = document.batch * document.segment_length
    start = wanted.round * document.samples_per_round + wanted.first + index * unit
    sums = [np.float64(0.0)] * len(document.metrics)
    for position in range(start, start + unit, document.batch):
        if cancelled is not None and cancelled():
            raise Cancelled
        place, metrics = advance(loaded, place, position, backend)
        values = [np.float64(metrics[name]) for name in document.metrics]
        sums = [total + value for total, value in zip(sums, values, strict=True)]
        if on_step is not None:
            on_step(position // document.batch, float(values[0]) if values else 0.0, place)
    means = (np.float32(total / np.float64(document.segment_length)) for total in sums)
    bits = tuple(int((mean + np.float32(0.0)).view(np.uint32)) for mean in means)
    return place, place.boundary(index + 1, (start + unit) // document.batch, bits)


def metric_values(bits: Sequence[int]) -> tuple[float, ...]:
    """Return the metrics of a boundary as numbers."""
    return tuple(float(value) for value in np.array(bits, np.uint32).view(np.float32))
