"""Loading a job directory: every file against the size, hash or root that the document names."""

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
    """A job whose files were all verified: initial states are in memory, read-only, and data stay on disk.

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
        """The state that round 0 begins with."""
        return self._initial[0]

    @property
    def local_state(self) -> State:
        """The local state that every slot begins with, unless :meth:`slot_local` has one of its own."""
        return self._initial[1]

    def slot_local(self, slot: int) -> State | None:
        """Return the local state that the first step of a slot begins with in the place of its opening, or None.

        Slots have states of their own where the job goes on from another one. An order knows one local root for all of
        them, so boundary 0 of the first round names that one, and the first step reads this state.

        Example::

            own = assay.load_job("my-job").slot_local(1)
        """
        return None if self.slots is None else self.slots.of(slot)

    @property
    def _initial(self) -> tuple[State, State]:
        if self.initial is None:
            raise ValueError("the initial states of this job were let go")
        return self.initial

    def without_initial(self) -> "LoadedJob":
        """Return the same job for whoever begins from other states, so that those of a large model take no memory."""
        return replace(self, initial=None)


def _load_state(directory: Path, name: str, specs: Sequence[TensorSpec], root: bytes, field: str) -> dict[str, Array]:
    size = encoded_size(specs)
    data = read_file(directory / name, name, size, size)
    try:
        state = decode_state(data, specs)
    except StateError as error:
        raise JobError(f"{name}:{error.field}", error.reason, REMEDY) from None
    if state_tree(state).root != root:
        raise JobError(field, f"is not the root of {name}", REMEDY)
    return state


def load_job(directory: Path | str, limits: Limits = LIMITS) -> LoadedJob:
    """Load a job directory and verify all that the document says about it.

    Raises JobError, which names the field or file, for anything that is not exactly the job.

    Example::

        loaded = assay.load_job("my-job")
        print(list(loaded.global_state))
    """
    directory = Path(directory)
    check_folder(directory)
    job = parse_job(read_file(directory / DOCUMENT, DOCUMENT, limits.document_size), limits)
    document = job.document
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
