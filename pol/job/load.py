"""Loading a job directory; every file is verified against the size, hash or root in the document."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from domain.readable import Readable
from pol.errors import JobError, StateError
from pol.job.dataset import Dataset
from pol.job.document import Job, parse_job
from pol.job.files import REMEDY, check_folder, open_file, read_file
from pol.job.paths import DOCUMENT, GLOBAL_STATE, LOCAL_STATE
from pol.job.shards import load_data
from pol.job.slots import SlotStates, load_slots
from pol.limits import LIMITS, Limits
from pol.state.arrays import State
from pol.state.canonical import read_next_state, state_tree
from pol.state.layout import encoded_size
from pol.state.stored import StoredState
from pol.values import TensorSpec


@dataclass(frozen=True)
class LoadedJob(Readable):
    """A job whose files were verified. Its data stay on disk. So do its initial states, or they are in memory; they are
    read-only.

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
        if self.slots is None and self.initial is None and self.job.document.slot_states_size:
            raise ValueError("this job was loaded without the states of slots")
        return None if self.slots is None else self.slots.of(slot)

    @property
    def _initial(self) -> tuple[State, State]:
        if self.initial is None:
            raise ValueError("the initial states of this job were dropped from memory")
        return self.initial

    def without_initial(self) -> "LoadedJob":
        """Return the same job without its initial states. This saves memory if training begins from other states."""
        return replace(self, initial=None)


def load_job(directory: Path | str, limits: Limits = LIMITS, *, with_states: bool = True) -> LoadedJob:
    """Load a job directory and verify every file against the document.

    Without ``with_states``, the initial states are neither verified nor loaded, nor are those of slots. A machine that
    has only some of their tensors needs this. Raises JobError, which names the field or file, if anything is missing or
    differs.

    Example::

        loaded = assay.load_job("my-job")
        print(list(loaded.global_state))
    """
    return _load(directory, limits, _load_state if with_states else None)


def verify_job(directory: Path | str, limits: Limits = LIMITS) -> LoadedJob:
    """Load a job directory as :func:`load_job` does, and leave its initial states on disk.

    No tensor of a state is in memory as a whole, so the states may be larger than memory. A state that changes on disk
    afterwards has other values.
    """
    return _load(directory, limits, _verify_state)


def load_document(directory: Path, limits: Limits = LIMITS) -> Job:
    """Return the job that the document in a directory describes. No other file is read. Raises JobError."""
    check_folder(directory)
    return parse_job(read_file(directory / DOCUMENT, DOCUMENT, limits.document_size), limits)


Read = Callable[[Path, str, Sequence[TensorSpec], bytes, str], State]


def _load(directory: Path | str, limits: Limits, read: Read | None) -> LoadedJob:
    """Load a job whose initial states ``read`` reads; None if it is loaded without them."""
    directory = Path(directory)
    job = load_document(directory, limits)
    document = job.document
    initial = None
    if read is not None:
        initial = (
            read(directory, GLOBAL_STATE, document.global_tensors, document.global_root, "global_root"),
            read(directory, LOCAL_STATE, document.local_tensors, document.local_root, "local_root"),
        )
    return LoadedJob(
        job=job,
        initial=initial,
        data=load_data(directory, document, limits),
        slots=None if read is None else load_slots(directory, document),
    )


def _load_state(directory: Path, name: str, specs: Sequence[TensorSpec], root: bytes, field: str) -> State:
    size = encoded_size(specs)
    with open_file(directory / name, name, size, size) as file:
        try:
            state = read_next_state(file, specs)
        except StateError as error:
            raise JobError(f"{name}:{error.field}", error.reason, REMEDY) from None
    _check_root(name, state_tree(state).root, root, field)
    return state


def _verify_state(directory: Path, name: str, specs: Sequence[TensorSpec], root: bytes, field: str) -> State:
    size = encoded_size(specs)
    file = open_file(directory / name, name, size, size)
    try:
        state = StoredState(file, specs)
        found = state.checked_root()
    except StateError as error:
        file.close()
        raise JobError(f"{name}:{error.field}", error.reason, REMEDY) from None
    _check_root(name, found, root, field)
    return state


def _check_root(name: str, found: bytes, root: bytes, field: str) -> None:
    if found != root:
        raise JobError(field, f"differs from the root of {name}", REMEDY)
