"""Python's search for objects in cycles, put off while many are made that stay: modules, and graphs under tracing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_later() -> Iterator[None]:
    """Look for objects in cycles afterwards only; for what makes no large ones."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def keep_for_good() -> None:
    """Never look again at what is there now, such as the modules that were imported."""
    gc.freeze()
