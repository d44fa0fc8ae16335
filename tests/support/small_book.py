"""Bounds of the order book so small that a few bids fill pages, bands and blocks as thousands do otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from unittest.mock import patch

from matching_engine import amounts, bands, book, columns, pages, search

_BOUNDS: dict[ModuleType, dict[str, int]] = {
    amounts: {"BLOCK": 2},
    bands: {"BAND": 2, "RANKED_BAND": 2, "STRIDE": 2, "STRIPES": 2},
    book: {"COLUMNS_MAX": 20},
    columns: {"COUNTED_MAX": 2, "DOING_MAX": 2},
    pages: {"PAGE": 8, "PAGE_LEAST": 3},
    search: {"BIDS_PER_READ": 3, "VALUES_PER_READ": 1, "FEW": 1, "COMMONS_MAX": 2},
}


@contextmanager
def small_bounds() -> Iterator[None]:
    """Let the book have small bounds meanwhile."""
    patches = [
        patch.object(module, name, value) for module, bounds in _BOUNDS.items() for name, value in bounds.items()
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
