"""Loading a job directory; every file is verified against the size, hash or root in the document."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from domain.readable import Readable
from pol.errors import JobError, StateError
from pol.job.dataset import Dataset
from pol.job.document import DOCUMENT, GLOBAL_STATE, LOCAL_STATE, Job, parse_job
from pol.job.files import REMEDY, check_folder, read_file
from pol.job.shards import load_data
from pol.job.slots import SlotStates, load_slots
from pol.limits import LIMITS, Limits
from pol.state.arrays import Array, State
from pol.state.canonical import decode_state, state_tree
from pol.state.layout import encoded_size
from pol.values import TensorSpec


@dataclass(frozen=True)
class LoadedJob(Readable):
    """A job whose files were all verified. Its initial states are in memory, read-only, and its data stay on disk.

    Example::

        loaded = assay.load_job("my-job")
        print(sorted(loaded.global_state))
    """

    job: Job
    initial: tuple[State, State] | None
    data: Dataset
    slots: SlotStates | None = None

    @property
    def global_state(self) -> State:
        """The global state at the beginning of round 0."""
        return self._initial[0]

    @property
    def local_state(self) -> State:
        """The initial local state of every slot that does not have its own (:meth:`slot_local`)."""
        return self._initial[1]

    def slot_local(self, slot: int) -> State | None:
        """Return the slot's own initial local state, or None if the slot begins with ``local_state``.

        Slots have their own initial states if the job continues another job. An order has only one local root, that of
        slot 0, so boundary 0 of the first round has this root for every slot. Nevertheless, the first step of a slot
        reads the slot's own state.

        Example::

            own = assay.load_job("my-job").slot_local(1)
        """
        return None if self.slots is None else self.slots.of(slot)

    @property
    def _initial(self) -> tuple[State, State]:
        if self.initial is None:
            raise ValueError("the initial states of this job were dropped from memory")
        return self.initial

    def without_initial(self) -> "LoadedJob":
        """Return the same job without its initial states. This saves memory if training begins from other states."""
        return replace(self, initial=None)


def _load_state(directory: Path, name: str, specs: Sequence[TensorSpec], root: bytes, field: str) -> dict[str, Array]:
    size = encoded_size(specs)
    data = read_file(directory / name, name, size, size)
    try:
        state = decode_state(data, specs)
    except StateError as error:
        raise JobError(f"{name}:{error.field}", error.reason, REMEDY) from None
    if state_tree(state).root != root:
        raise JobError(field, f"differs from the root of {name}", REMEDY)
    return state


def load_job(directory: Path | str, limits: Limits = LIMITS, *, with_states: bool = True) -> LoadedJob:
    """Load a job directory and verify every file against the document.

    Without ``with_states``, the initial states are neither verified nor loaded. A machine that has only some of their
    tensors needs this. Raises JobError, which names the field or file, if anything is missing or differs.

    Example::

        loaded = assay.load_job("my-job")
        print(list(loaded.global_state))
    """
    directory = Path(directory)
    check_folder(directory)
    job = parse_job(read_file(directory / DOCUMENT, DOCUMENT, limits.document_size), limits)
    document = job.document
    initial = None
    if with_states:
        initial = (
            _load_state(directory, GLOBAL_STATE, document.global_tensors, document.global_root, "global_root"),
            _load_state(directory, LOCAL_STATE, document.local_tensors, document.local_root, "local_root"),
        )
    return LoadedJob(
        job=job,
        initial=initial,
        data=load_data(directory, document, limits),
        slots=load_slots(directory, document),
    )
