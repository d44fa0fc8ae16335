"""Sites of random numbers.

Each call in a step that draws has its own site. Sites are numbered in the order of the calls.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar


class Sites:
    """A counter of sites. ``drawing`` is the context in which random draws take their sites from this counter."""

    def __init__(self, drawing: AbstractContextManager[object] | None = None, first: int = 0) -> None:
        self.drawing = drawing or nullcontext()
        self.next = first
        """Site of the next call that draws."""

    def take(self) -> int:
        """Return the next site, from which no call has drawn yet."""
        site, self.next = self.next, self.next + 1
        return site

    @contextmanager
    def again_from(self, site: int) -> Iterator[None]:
        """Let calls within this context draw from earlier sites again, beginning with ``site``."""
        later, self.next = self.next, site
        try:
            yield
        finally:
            self.next = later


_active: ContextVar[tuple[Sites, ...]] = ContextVar("active", default=())


@contextmanager
def drawing_from(sites: Sites) -> Iterator[None]:
    """Let :func:`active_sites` return these ``sites`` within this context."""
    token = _active.set((*_active.get(), sites))
    try:
        yield
    finally:
        _active.reset(token)


def active_sites() -> Sites:
    """Return the counter of the innermost :func:`drawing_from` context, or a new counter outside of such a context."""
    return _active.get()[-1] if _active.get() else Sites()
