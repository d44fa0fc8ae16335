"""The initial local states of the slots of a job that continues another job.

They stay on disk until they are used.
"""

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
    """The initial states of slots 1, 2, … in an open file; slot 0 begins with ``local.state``.

    The object owns the file and closes it.
    """

    def __init__(self, file: BufferedReader, document: JobDocument) -> None:
        finalize(self, file.close)
        self._file, self._reading = file, Lock()
        self._specs = document.local_tensors
        self._roots = document.start.local_roots
        self._size = encoded_size(document.local_tensors)

    def of(self, slot: int) -> State | None:
        """Return the initial state of a slot, in memory; None for slot 0.

        Raises JobError if the state in the file does not have the root of this slot. This also detects a change of the
        file after it was loaded.
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
            reason = f"differs from the root of the state of slot {slot} in {SLOT_STATES}"
            raise JobError(f"start.local_roots[{slot}]", reason, REMEDY)
        return state


def load_slots(directory: Path, document: JobDocument) -> SlotStates | None:
    """Verify the slots' initial states and return them. Return None if all slots begin with the same state.

    Raises JobError if the file is missing or its states differ from the document.
    """
    size = document.slot_states_size
    if not size:
        return None
    states = SlotStates(open_file(directory / SLOT_STATES, SLOT_STATES, size, size), document)
    for slot in range(document.slots):
        states.of(slot)
    return states
