"""What people name on the command line, looked up among all that there is."""

from dataclasses import dataclass

import pytest

from assay.cli.arguments import all_pages
from domain.limits import QUERY_LIMIT_MAX


@dataclass(frozen=True)
class Item:
    id: bytes


@pytest.mark.parametrize("count", [0, 1, QUERY_LIMIT_MAX, 2 * QUERY_LIMIT_MAX + 7])
def test_what_is_on_later_pages_is_found_too(count: int) -> None:
    items = [Item(number.to_bytes(4, "big")) for number in range(1, count + 1)]

    def page(after: bytes) -> list[Item]:
        return [item for item in items if item.id > after][:QUERY_LIMIT_MAX]

    assert list(all_pages(page)) == items  # type: ignore[type-var]
