"""The local states that slots begin with where a job goes on from another one; they stay on disk until used."""

from io import BufferedReader
from pathlib import Path
from threading import Lock
from weakref import finalize

from pol.errors import JobError, StateError
from pol.job.document import SLOT_STATES, JobDocument
from pol.job.files import REMEDY, open_file
from pol.state.arrays import State
from pol.state.canonical import read_next_state, state_tree
from pol.state.layout import encoded_size


class SlotStates:
    """The states of slots 1, 2, … in an open file; slot 0 begins with ``local.state``.

    The file is the object's own, which closes it.
    """

    def __init__(self, file: BufferedReader, document: JobDocument) -> None:
        finalize(self, file.close)
        self._file, self._reading = file, Lock()
        self._specs = document.local_tensors
        self._roots = document.start.local_roots
        self._size = encoded_size(document.local_tensors)

    def of(self, slot: int) -> State | None:
        """Return the state that a slot begins with, in memory; None for slot 0.

        Raises JobError where the file does not hold the state of this slot's root: also when it was changed after it
        had been loaded.
        """
        if slot == 0:
            return None
        try:
            with self._reading:
                self._file.seek((slot - 1) * self._size)
                state = read_next_state(self._file, self._specs)
        except StateError as error:
            raise JobError(f"{SLOT_STATES}:{error.field}", error.reason, REMEDY) from None
        if state_tree(state).root != self._roots[slot]:
            reason = f"is not the root of the state of slot {slot} in {SLOT_STATES}"
            raise JobError(f"start.local_roots[{slot}]", reason, REMEDY)
        return state


def load_slots(directory: Path, document: JobDocument) -> SlotStates | None:
    """Verify the states that slots begin with, one after another; None where all begin with the same one.

    Raises JobError when the file is missing or holds other states than the document names.
    """
    size = document.slot_states_size
    if not size:
        return None
    states = SlotStates(open_file(directory / SLOT_STATES, SLOT_STATES, size, size), document)
    for slot in range(document.slots):
        states.of(slot)
    return states
