"""What tracing has to tell the person who builds a job, each thing once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

WARNING = "warning: "
"""What a line begins with that tells of something that was not made sure."""
_Notes = tuple[Callable[[str], None], set[str]]
_notes: ContextVar[_Notes | None] = ContextVar("notes", default=None)


@contextmanager
def noting(tell: Callable[[str], None]) -> Iterator[None]:
    """Let :func:`note` tell what it is given."""
    token = _notes.set((tell, set()))
    try:
        yield
    finally:
        _notes.reset(token)


def warn(text: str, tell: Callable[[str], None] | None = None) -> None:
    """Tell a person of something that was not made sure, by what notes are told with if nothing else is given."""
    (tell or note)(WARNING + text)


def note(text: str) -> None:
    """Tell a person something, if that was not told before."""
    notes = _notes.get()
    if notes is not None and text not in notes[1]:
        notes[1].add(text)
        notes[0](text)
