"""The computations of a kind of update."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pol.executor.interface import Backend
from pol.job.load import LoadedJob
from pol.state.arrays import Array, State
from pol.values import TensorSpec
from pol.work.records import UpdateResult
from pol.work.segments import SlotState


@dataclass(frozen=True, slots=True)
class UpdateCodec:
    """The computations of a kind of update.

    - ``encode`` takes the job, the global state at the round's beginning, the slot's states at its end, and the back
      end. It returns the update and the slot's local state after the round. Raises UpdateFailed if a number of the
      update is not finite.
    - ``encode_tensor`` takes a tensor at the round's beginning, the same tensor at its end, and its name. It returns
      the update's tensor. Raises NotFinite if a number of it is not finite. It is None if the program ``close`` makes
      updates.
    - ``combine`` takes tensors of the update, the number of slots, and these tensors of the updates of all slots in
      slot order. It returns the inputs of ``outer`` that are made from them, by name. It reads the updates one at a
      time. Raises ReplayError if there is not one update per slot, and StateError if an update has other tensors.
    - ``combined`` says what these inputs are, such as "mean".
    """

    encode: Callable[[LoadedJob, State, SlotState, Backend], UpdateResult]
    encode_tensor: Callable[[Array, Array, str], Array] | None
    combine: Callable[[Sequence[TensorSpec], int, Iterable[State]], dict[str, Array]]
    combined: str
