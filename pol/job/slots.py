"""The initial local states of the slots of a job that continues another job.

They stay on disk until they are used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import Final
from weakref import finalize

from pol.errors import JobError, StateError
from pol.job.document import JobDocument
from pol.job.files import REMEDY, open_file
from pol.job.paths import SLOT_STATES
from pol.state.arrays import State
from pol.state.canonical import read_next_state, state_tree
from pol.state.layout import encoded_size
from pol.state.stored import next_root

_COPY_BYTES: Final = 1 << 20


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
        with self._reading, self._at(slot):
            state = read_next_state(self._file, self._specs)
        self._check(slot, state_tree(state).root)
        return state

    def verify(self, slot: int) -> None:
        """Read the initial state of a slot, except slot 0, a few chunks at a time.

        Raises JobError if it does not have the root of this slot.
        """
        with self._reading, self._at(slot):
            root = next_root(self._file, self._specs)
        self._check(slot, root)

    def copy(self, slot: int, to: Path) -> bytes:
        """Write the initial state of a slot, except slot 0, to a new file. Return the root that it must have.

        The bytes are not verified.
        """
        with self._reading, to.open("xb") as target:
            self._file.seek((slot - 1) * self._size)
            left = self._size
            while left and (data := self._file.read(min(left, _COPY_BYTES))):
                target.write(data)
                left -= len(data)
        return self._roots[slot]

    @contextmanager
    def _at(self, slot: int) -> Iterator[None]:
        """Read the state of a slot within this context, in which errors of a state are those of the job."""
        self._file.seek((slot - 1) * self._size)
        try:
            yield
        except StateError as error:
            raise JobError(f"{SLOT_STATES}:{error.field}", error.reason, REMEDY) from None

    def _check(self, slot: int, root: bytes) -> None:
        if root != self._roots[slot]:
            reason = f"differs from the root of the state of slot {slot} in {SLOT_STATES}"
            raise JobError(f"start.local_roots[{slot}]", reason, REMEDY)


def open_slots(directory: Path, document: JobDocument) -> SlotStates | None:
    """Return the slots' initial states without verifying them. Return None if all slots begin with the same state.

    Raises JobError if the file is missing or has another size.
    """
    size = document.slot_states_size
    return SlotStates(open_file(directory / SLOT_STATES, SLOT_STATES, size, size), document) if size else None


def load_slots(directory: Path, document: JobDocument) -> SlotStates | None:
    """Verify the slots' initial states and return them; no tensor is in memory as a whole. Return None if all slots
    begin with the same state.

    Raises JobError if the file is missing or its states differ from the document.
    """
    states = open_slots(directory, document)
    if states is not None:
        for slot in range(1, document.slots):
            states.verify(slot)
    return states
