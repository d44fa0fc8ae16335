"""The jobs, back ends and states that a process of the pool loads from files, and the checks of their roots."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pol.errors import NotFinite, StateError
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, verify_job
from pol.rules.commitment import boundary_root
from pol.state.arrays import State
from pol.state.canonical import read_state, state_pieces, state_tree
from pol.values import TensorSpec
from pol.work.segments import SlotState
from validator.work.requests import OpenedStates, RootedFile, StateFiles


@lru_cache(maxsize=4)
def job_in(directory: Path) -> LoadedJob:
    """Load and return the job in a directory. It is cached, because a directory's name is the hash of its content."""
    return verify_job(directory).without_initial()


@lru_cache(maxsize=2)
def backend_of(engine: Engine) -> Backend:
    """Return the back end of an engine. It is cached, because it keeps the programs that it compiled."""
    return backend(engine)


def open_states(job: LoadedJob, files: StateFiles) -> tuple[State, State] | None:
    """Return the global and the local state in two files; None if a file is not such a state."""
    try:
        return (
            read_state(files.global_state, job.job.document.global_tensors),
            read_state(files.local_state, job.job.document.local_tensors),
        )
    except StateError:
        return None


def opened_states(job: LoadedJob, asked: OpenedStates) -> SlotState | None:
    """Return the states in two files; None unless they and their metrics hash to the boundary root.

    The caller may change the states. Their hashes are kept, so that unchanged parts are not hashed again.
    """
    read = open_states(job, asked.files)
    if read is None:
        return None
    opened = SlotState(*read)
    return opened if boundary_root(*opened.roots, asked.metrics) == asked.root else None


def read_rooted(file: RootedFile, specs: Sequence[TensorSpec]) -> State:
    """Return the state in a file; StateError (never its subclass NotFinite) if its root is not the one on chain."""
    try:
        state = read_state(file.path, specs)
    except NotFinite as error:
        raise StateError(error.field, error.reason) from None
    if state_tree(state).root != file.root:
        raise StateError("state", "does not have the root that the chain names")
    return state


def pieces_of(*states: State) -> Iterator[bytes | memoryview]:
    """Yield the canonical bytes of some states, one state after another."""
    for state in states:
        yield from state_pieces(state)
