"""Notes for the person who builds a job; each note is reported once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

WARNING = "warning: "
"""Start of a line about something that could not be checked."""
_Notes = tuple[Callable[[str], None], set[str]]
_notes: ContextVar[_Notes | None] = ContextVar("notes", default=None)


@contextmanager
def noting(tell: Callable[[str], None]) -> Iterator[None]:
    """Let :func:`note` report by ``tell`` while the block runs."""
    token = _notes.set((tell, set()))
    try:
        yield
    finally:
        _notes.reset(token)


def warn(text: str, tell: Callable[[str], None] | None = None) -> None:
    """Report that something could not be checked: by ``tell`` if it is given, otherwise as a note."""
    (tell or note)(WARNING + text)


def note(text: str) -> None:
    """Report a line to the person who builds the job, unless this line was already reported."""
    notes = _notes.get()
    if notes is not None and text not in notes[1]:
        notes[1].add(text)
        notes[0](text)
