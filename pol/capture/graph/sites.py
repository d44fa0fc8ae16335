"""The sites that a step draws from: each call that draws has one of its own, counted in the order of the calls."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar


class Sites:
    """Counts sites; within ``drawing``, what draws does so from these."""

    def __init__(self, drawing: AbstractContextManager[object] | None = None, first: int = 0) -> None:
        self.drawing = drawing or nullcontext()
        self.next = first
        """The site that will be drawn from next."""

    def take(self) -> int:
        """Return a site that nothing has drawn from."""
        site, self.next = self.next, self.next + 1
        return site

    @contextmanager
    def again_from(self, site: int) -> Iterator[None]:
        """Draw once more from sites that were drawn from, from this one on."""
        later, self.next = self.next, site
        try:
            yield
        finally:
            self.next = later


_active: ContextVar[tuple[Sites, ...]] = ContextVar("active", default=())


@contextmanager
def drawing_from(sites: Sites) -> Iterator[None]:
    """Let :func:`active_sites` be these."""
    token = _active.set((*_active.get(), sites))
    try:
        yield
    finally:
        _active.reset(token)


def active_sites() -> Sites:
    """Return the sites that are drawn from now; new ones where nothing draws."""
    return _active.get()[-1] if _active.get() else Sites()
