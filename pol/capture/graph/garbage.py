"""Delay of Python's garbage collection while many lasting objects are created, such as modules and captured graphs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_later() -> Iterator[None]:
    """Disable garbage collection within this context, for code that creates no large reference cycles."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def keep_for_good() -> None:
    """Exclude all present objects, such as imported modules, from garbage collection as long as the process lives."""
    gc.freeze()
