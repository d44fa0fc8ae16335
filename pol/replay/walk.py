"""The recomputation of a segment, an update or an aggregation in single values, in an order that all machines share.

Two machines that recompute the same place see the same list of values. If all values before one are equal, and this one
is not, the machines computed it from equal inputs, and one of them is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pol.errors import AggregationFailed, NotFinite, NotFiniteStep, OutOfRange, StepFailed, UpdateFailed
from pol.executor.interface import Backend
from pol.job.load import LoadedJob
from pol.job.program import Node, Program
from pol.job.updates import kind_of
from pol.replay.operations import OperationPath, OperationRun, OperationRunner, value_hash
from pol.state.arrays import Array, State, canonical_array
from pol.state.canonical import state_tree
from pol.values import mean_metrics
from pol.work.places import boundary_step
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import SlotState, first_state, merged, step_inputs
from pol.work.train import aggregate_inputs, share_update
from pol.work.updates.coded import close_inputs, closed
from pol.work.updates.table import codec_of


class PlaceKind(StrEnum):
    """The kind of a place of a round that can be recomputed alone."""

    SEGMENT = "segment"
    UPDATE = "update"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of a value in the recomputation of a place.

    ``step`` is the inner step of a segment, and None elsewhere. ``path`` is the position of an operation. ``name`` is
    the name of a value that is no operation's result: an output of a program, a metric of the segment, or a tensor.
    """

    step: int | None = None
    path: OperationPath = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class SeenValue:
    """A value of a recomputation: its spot, its hash, the value, and the operation with its operands.

    A value that is no operation's result has no ``node``; its operands are the values that it is made of.
    """

    spot: Spot
    hash: bytes
    value: Array
    operands: tuple[Array, ...]
    node: Node | None = None


See = Callable[[SeenValue], None]
"""A function that receives every value. It may end the recomputation by raising an exception."""


def walk_segment(
    loaded: LoadedJob, part: RoundSlot, index: int, start: SlotState, backend: Backend, see: See
) -> Boundary:
    """Recompute segment ``index`` of a share from the states ``start``, and return the boundary at its end.

    The values of each step are the results of its operations and then its outputs in canonical form. The means of the
    metrics follow. Raises StepFailed if a step has no result.
    """
    document = loaded.job.document
    runner = OperationRunner(backend, document.seed)
    state = first_state(loaded, part.slot, start) if (part.round, index) == (0, 0) else start
    begin = boundary_step(document, part.round, index)
    end = begin + document.segment_steps
    sums = [np.float64(0.0)] * len(document.metrics)
    for step in range(begin, end):
        inputs = step_inputs(loaded, state, step, part.slot)
        try:
            outputs = _watched(runner, document.step, inputs, step, see)
        except NotFinite as error:
            raise NotFiniteStep(step, error.field, error.reason) from None
        except OutOfRange as error:
            raise StepFailed(step, error.field, error.reason) from None
        state = state.after(outputs)
        values = [np.float64(outputs[f"metric.{name}"]) for name in document.metrics]
        sums = [total + value for total, value in zip(sums, values, strict=True)]
    means = mean_metrics(sums, document.segment_steps)
    for name, total, bits in zip(document.metrics, sums, means, strict=True):
        mean = np.array(bits, np.uint32).view(np.float32)
        see(_seen(Spot(name=f"mean of metric {name}"), mean, (np.array(total),)))
    return state.boundary(index + 1, end, means)


def walk_update(loaded: LoadedJob, opening: State, end: SlotState, backend: Backend, see: See) -> bytes:
    """Recompute the update of a share, and return its root.

    Its values are its tensors or, if the job has a program ``close``, the results of that program's operations and its
    outputs. Raises UpdateFailed if the update has no result.
    """
    document = loaded.job.document
    if document.close is not None:
        runner = OperationRunner(backend, document.seed)
        try:
            outputs = _watched(runner, document.close, close_inputs(opening, end), None, see)
        except (NotFinite, OutOfRange) as error:
            raise UpdateFailed(error.field, error.reason) from None
        return closed(end, outputs).update_root
    result = share_update(loaded, opening, end, backend)
    for name in sorted(result.update):
        operands = (np.asarray(opening[name]), np.asarray(end.global_state[name]))
        value = result.update[name]
        see(_seen(Spot(name=f"update of {name}"), value, operands))
    return result.update_root


def walk_aggregation(loaded: LoadedJob, opening: State, updates: Sequence[State], backend: Backend, see: See) -> bytes:
    """Recompute the aggregation of a round, and return the root of the next global state.

    The values are what the updates are combined to by tensor, such as their means, the results of the operations, and
    the outputs. Raises AggregationFailed if there is no next state.
    """
    document = loaded.job.document
    start, inputs = aggregate_inputs(loaded, opening, updates)
    combined = codec_of(loaded.job.document).combined
    for name in sorted(kind_of(document).inputs(document)):
        tensor = name.partition(".")[2]
        operands = tuple(np.asarray(update[tensor]) for update in updates)
        see(_seen(Spot(name=f"{combined} of {tensor}"), inputs[name], operands))
    try:
        outputs = _watched(OperationRunner(backend, document.seed), document.outer, inputs, None, see)
    except (NotFinite, OutOfRange) as error:
        raise AggregationFailed(error.field, error.reason) from None
    return state_tree(merged(start, outputs, "global.")).root


def _watched(
    runner: OperationRunner, program: Program, inputs: Mapping[str, Array], step: int | None, see: See
) -> dict[str, Array]:
    """Return the outputs of a program in canonical form; ``see`` receives the results of operations and the outputs."""

    def observe(ran: OperationRun) -> None:
        see(_seen(Spot(step, ran.path), ran.result, ran.operands, ran.node))

    raw = runner.run(program, inputs, observe)
    outputs = {}
    for name in sorted(raw):
        value = np.array(canonical_array(raw[name], name))
        see(_seen(Spot(step, name=name), value, (raw[name],)))
        outputs[name] = value
    return outputs


def _seen(spot: Spot, value: Array, operands: tuple[Array, ...], node: Node | None = None) -> SeenValue:
    return SeenValue(spot=spot, hash=value_hash(value), value=value, operands=operands, node=node)
