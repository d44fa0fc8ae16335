"""Pages of lists in the form of the Cosmos SDK: by key or by offset, at most ``QUERY_LIMIT_MAX`` items each."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from cosmpy.protos.cosmos.base.query.v1beta1.pagination_pb2 import PageResponse

from chain.state_machine.tables import get_limit
from domain.errors import INVALID_REQUEST, Refusal

T = TypeVar("T")

OFFSET_MAX = 10_000
"""Largest number of items that a page by offset may skip, because a node reads every skipped item."""


def page_of(items: Sequence[T], request: Any) -> tuple[Sequence[T], Any]:
    """Return one page of a list that is in memory, and its ``PageResponse``. The key of a page is a position."""
    limit, start = get_limit(request.limit), _offset(request)
    if request.key:
        start = _position(request.key)
    if request.reverse:
        items = items[::-1]
    page = items[start : start + limit]
    end = start + len(page)
    next_key = b"" if end >= len(items) else end.to_bytes(8, "big")
    return page, PageResponse(next_key=next_key, total=len(items) if request.count_total or not request.key else 0)


def page_of_keys(
    rows: Callable[[bytes], Iterable[T]], key_of: Callable[[T], bytes], request: Any
) -> tuple[list[T], Any]:
    """Return one page of a list that is read from the state, and its ``PageResponse``.

    ``rows`` yields the items that come after a key (empty: all items), and ``key_of`` returns an item's key. Pages have
    the order of the keys; the total is not counted, because that would read the whole list.
    """
    if request.reverse:
        raise Refusal(INVALID_REQUEST, "pagination.reverse", "is not possible for this list", "leave it out")
    limit = get_limit(request.limit)
    items = iter(rows(bytes(request.key)))
    page = list(islice(items, _offset(request), _offset(request) + limit))
    more = next(items, None) is not None
    return page, PageResponse(next_key=key_of(page[-1]) if page and more else b"")


def _offset(request: Any) -> int:
    if request.key and request.offset:
        raise Refusal(INVALID_REQUEST, "pagination", "has a key and an offset", "send only one of them")
    if request.offset > OFFSET_MAX:
        remedy = f"use at most {OFFSET_MAX}, or follow next_key from page to page"
        raise Refusal(INVALID_REQUEST, "pagination.offset", f"{request.offset} is too much", remedy)
    return int(request.offset)


def _position(key: bytes) -> int:
    if len(key) != 8:
        raise Refusal(INVALID_REQUEST, "pagination.key", "is not a key of this list", "send next_key of the last page")
    return int.from_bytes(key, "big")
