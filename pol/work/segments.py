"""The code that runs the steps of one segment. Training and replay both use it."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from pol.errors import (
    Cancelled,
    NotFinite,
    NotFiniteStep,
    OutOfRange,
    StateError,
    StepFailed,
)
from pol.executor.interface import Backend, nothing_reads, run_held
from pol.job.dataset import batch_at
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import LoadedJob
from pol.rules.commitment import boundary_root
from pol.rules.schedule import batch_number
from pol.state.arrays import NUMPY_DTYPES, Array, State, dtype_name
from pol.state.canonical import NOTHING_KNOWN, StateTree, freeze, state_tree
from pol.state.held import Held, HeldState, on_host, state_on_host
from pol.values import TensorSpec, mean_metrics
from pol.work.places import boundary_step
from pol.work.records import Boundary, RoundSlot

T = TypeVar("T", bound=Held)
Leaves = Mapping[str, Sequence[bytes]]
"""Hashes of the chunks of each tensor, by the tensor's name."""


class SlotState:
    """The global and the local state of a slot at a step.

    Steps leave the states where they compute them (:mod:`pol.state.held`). The states come to the host, and are hashed,
    when this is first needed.
    """

    def __init__(
        self,
        global_state: HeldState,
        local_state: HeldState,
        known: tuple[Leaves, Leaves] = (NOTHING_KNOWN, NOTHING_KNOWN),
        outputs: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset()),
    ) -> None:
        """Take over two states in canonical form.

        ``known`` holds the chunk hashes of tensors that were hashed before. ``outputs`` are the names of tensors that
        are outputs of a program. These are certain to be in canonical form; all others are checked again when they are
        hashed.
        """
        self.held = global_state, local_state
        self._known = known
        self._outputs = outputs
        self._trees: list[StateTree | None] = [None, None]

    @cached_property
    def global_state(self) -> State:
        """The global state, on the host."""
        return state_on_host(self.held[0])

    @cached_property
    def local_state(self) -> State:
        """The local state, on the host."""
        return state_on_host(self.held[1])

    @property
    def trees(self) -> tuple[StateTree, StateTree]:
        """The hash trees of the global and of the local state."""
        return self._tree(0), self.local_tree

    @property
    def local_tree(self) -> StateTree:
        """The hash tree of the local state alone."""
        return self._tree(1)

    def _tree(self, part: int) -> StateTree:
        tree = self._trees[part]
        if tree is None:
            state = self.local_state if part else self.global_state
            tree = self._trees[part] = state_tree(state, self._known[part], self._outputs[part])
        return tree

    @property
    def known_local_leaves(self) -> Leaves:
        """The hashes of the chunks of those tensors of the local state that were hashed before."""
        return self._leaves(1)

    def _leaves(self, part: int) -> Leaves:
        """Return the hashes that are known of the global state (part 0) or the local state (part 1)."""
        tree = self._trees[part]
        return self._known[part] if tree is None else tree.tensors

    @property
    def roots(self) -> tuple[bytes, bytes]:
        """The roots of the global and of the local state."""
        first, second = self.trees
        return first.root, second.root

    @property
    def root(self) -> bytes:
        """The root of the global and the local state together, without metrics."""
        return boundary_root(*self.roots)

    def boundary(self, index: int, step: int, metrics: tuple[int, ...]) -> Boundary:
        """Return the boundary of a trace that these states form.

        ``step`` is the number of the first inner step after it.
        """
        first, second = self.roots
        return Boundary(
            index=index,
            step=step,
            global_root=first,
            local_root=second,
            root=boundary_root(first, second, metrics),
            metrics=metrics,
        )

    def with_local(self, local: State) -> "SlotState":
        """Return the same global state with another local state.

        ``local`` is in canonical form, and the caller may not change it afterwards.
        """
        return SlotState(self.held[0], local, (self._leaves(0), NOTHING_KNOWN), (self._outputs[0], frozenset()))

    def after(self, outputs: Mapping[str, Held]) -> "SlotState":
        """Return the states after a step.

        The outputs of the step are in canonical form. They replace tensors of the same names; all other tensors keep
        their hashes.
        """
        global_names, local_names = (_names(outputs, prefix) for prefix in ("global.", "local."))
        return SlotState(
            merged(self.held[0], outputs, "global.") if global_names else self.held[0],
            merged(self.held[1], outputs, "local.") if local_names else self.held[1],
            (_without(self._leaves(0), global_names), _without(self._leaves(1), local_names)),
            (self._outputs[0] | global_names, self._outputs[1] | local_names),
        )


def _names(outputs: Mapping[str, Held], prefix: str) -> frozenset[str]:
    """Return the names of the tensors that outputs with a prefix replace."""
    return frozenset([name.removeprefix(prefix) for name in outputs if name.startswith(prefix)])


def _without(known: Leaves, names: frozenset[str]) -> Leaves:
    if not names:
        return known
    return {name: leaves for name, leaves in known.items() if name not in names}


def check_specs(state: State, specs: Sequence[TensorSpec], what: str) -> None:
    """Raise StateError if a state does not have exactly the tensors ``specs``.

    ``what`` names the state in the error.
    """
    # This is called several times in each round, also of jobs whose rounds take milliseconds.
    if not _has_tensors(state, specs):
        raise StateError(what, "its tensors are not those of the job")


def _has_tensors(state: State, specs: Sequence[TensorSpec]) -> bool:
    if len(state) != len(specs):
        return False
    for spec in specs:
        array = state.get(spec.name)
        if array is None or array.shape != spec.shape:
            return False
        if array.dtype is not NUMPY_DTYPES[spec.dtype] and dtype_name(array, spec.name) != spec.dtype:
            return False
    return True


def check_state(state: State, specs: Sequence[TensorSpec], what: str) -> dict[str, Array]:
    """Return a copy of a state in canonical, read-only form.

    Raises StateError if it does not have exactly the tensors ``specs``.
    """
    check_specs(state, specs, what)
    return freeze(state)


def slot_state(loaded: LoadedJob, opening: State, local: State) -> SlotState:
    """Return a slot's state with copies of a global and a local state.

    Raises StateError if they do not have the job's tensors.
    """
    document = loaded.job.document
    first = check_state(opening, document.global_tensors, "global state")
    second = check_state(local, document.local_tensors, "local state")
    return SlotState(first, second)


def step_inputs(loaded: LoadedJob, before: SlotState, step: int, slot: int) -> dict[str, Array]:
    """Return the inputs of the step program for one inner step of a slot: the states, the batch, and two numbers.

    ``step`` counts from 0 in every job; the program gets ``Start.step`` plus this number.
    """
    return {name: on_host(held) for name, held in _held_inputs(loaded, before, step, slot).items()}


def _held_inputs(loaded: LoadedJob, before: SlotState, step: int, slot: int) -> dict[str, Held]:
    """Return the inputs of a step as :func:`step_inputs` does, but leave the states where they are."""
    document = loaded.job.document
    at = document.start.step + step
    number = batch_number(document.slots, at, slot)
    first, second = before.held
    inputs = {f"global.{name}": held for name, held in first.items()}
    inputs.update({f"local.{name}": held for name, held in second.items()})
    inputs.update(batch_at(loaded.data, loaded.job, number))
    inputs[STEP], inputs[BATCH_NUMBER] = np.array(at, np.int64), np.array(number, np.int64)
    return inputs


def advance(
    loaded: LoadedJob,
    before: SlotState,
    step: int,
    slot: int,
    backend: Backend,
    donate: bool = False,
    release: Callable[[], None] = nothing_reads,
) -> tuple[SlotState, dict[str, Array]]:
    """Run one inner step of a slot, as :func:`step_inputs` numbers it. Return the state after it, and the metrics.

    If ``donate`` is true, the step may overwrite ``before``, so the caller may not use ``before`` afterwards. Another
    thread may still read ``before`` when the step begins. ``release`` waits for that thread. It is called before the
    first tensor is overwritten, and again at the end of the step.

    Raises NotFiniteStep if a result is not finite, and StepFailed if the step uses a row number that does not exist.
    """
    document = loaded.job.document
    inputs = _held_inputs(loaded, before, step, slot)
    donated = tuple(name for name in inputs if name.startswith(("global.", "local."))) if donate else ()
    try:
        outputs = run_held(document.step, inputs, document.seed, backend, donated, release)
    except NotFinite as error:
        raise NotFiniteStep(step, error.field, error.reason) from None
    except OutOfRange as error:
        raise StepFailed(step, error.field, error.reason) from None
    # From here on, the hashes that the other thread computed are available.
    release()
    return before.after(outputs), {name: on_host(outputs[f"metric.{name}"]) for name in document.metrics}


def merged(before: Mapping[str, T], outputs: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return a state with some tensors replaced by the outputs of a program.

    Tensors without an output stay the same objects.

    The name of an output is ``prefix`` and the name of its tensor.
    """
    state = dict(before)
    for name, held in outputs.items():
        if name.startswith(prefix):
            if isinstance(held, np.ndarray):
                held.setflags(write=False)
            state[name[len(prefix) :]] = held
    return state


def first_state(loaded: LoadedJob, slot: int, state: SlotState) -> SlotState:
    """Return the state that a slot's first step uses. It is ``state``; if the slot has its own initial local state,
    that replaces the local state.
    """
    own = loaded.slot_local(slot)
    return state if own is None else state.with_local(freeze(own))


def run_segment(
    loaded: LoadedJob,
    part: RoundSlot,
    index: int,
    state: SlotState,
    backend: Backend,
    on_step: Callable[[int, float, SlotState], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    donate: bool = False,
) -> tuple[SlotState, Boundary]:
    """Run a segment as :func:`run_steps` does. Return the states at its end, and the boundary there."""
    state, metrics = run_steps(loaded, part, index, state, backend, on_step, cancelled, donate)
    end = boundary_step(loaded.job.document, part.round, index + 1)
    return state, state.boundary(index + 1, end, metrics)


def run_steps(
    loaded: LoadedJob,
    part: RoundSlot,
    index: int,
    state: SlotState,
    backend: Backend,
    on_step: Callable[[int, float, SlotState], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    donate: bool = False,
    release: Callable[[], None] = nothing_reads,
) -> tuple[SlotState, tuple[int, ...]]:
    """Run the steps of segment ``index`` of a share.

    Return the states at its end, and the means of the metrics over its steps. The metrics are FP32 bit patterns. The
    caller has checked that the job has this segment. If the job has an initial local state for the slot
    (:meth:`LoadedJob.slot_local`), the slot's first step uses this state instead of the local state in ``state``.
    ``on_step`` receives the step's number, its first metric and the state after it. If ``donate`` is true, the steps
    overwrite ``state``, which saves memory. In that case the caller may not use ``state`` afterwards, and the state
    passed to ``on_step`` is valid only during that call. ``release`` is as in :func:`advance`.
    """
    document = loaded.job.document
    if (part.round, index) == (0, 0):
        state = first_state(loaded, part.slot, state)
    start = boundary_step(document, part.round, index)
    end = start + document.segment_steps
    sums = [np.float64(0.0)] * len(document.metrics)
    for step in range(start, end):
        if cancelled is not None and cancelled():
            raise Cancelled
        state, metrics = advance(loaded, state, step, part.slot, backend, donate, release)
        values = [np.float64(metrics[name]) for name in document.metrics]
        sums = [total + value for total, value in zip(sums, values, strict=True)]
        if on_step is not None:
            on_step(step, float(values[0]) if values else 0.0, state)
    return state, mean_metrics(sums, document.segment_steps)
