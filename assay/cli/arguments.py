"""Parsing of what people type: ids, amounts, durations."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from assay.cli.errors import CliError
from domain.errors import Exit
from domain.limits import QUERY_LIMIT_MAX

if TYPE_CHECKING:
    from chain.client.client import ChainClient
    from domain.records import Bid, Order

Item = TypeVar("Item", "Order", "Bid")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def find_order(client: "ChainClient", text: str) -> bytes:
    """Return the id of the order that ``text`` names: 64 hex digits, or the first ones (8 or more) of one order's."""
    from domain.queries import OrdersRequest

    def page(after: bytes) -> Sequence["Order"]:
        return client.query(OrdersRequest("", "", 0, QUERY_LIMIT_MAX, after)).orders

    return _find(text, "order", lambda: all_pages(page))


def find_bid(client: "ChainClient", text: str) -> bytes:
    """Return the id of the bid that ``text`` names, as :func:`find_order`."""
    return _find(text, "bid", lambda: all_bids(client))


def all_bids(client: "ChainClient") -> Iterator["Bid"]:
    """Yield every bid in the book."""
    from domain.queries import BidsRequest

    return all_pages(lambda after: client.query(BidsRequest("", QUERY_LIMIT_MAX, after)).bids)


def all_pages(page: Callable[[bytes], Sequence[Item]]) -> Iterator[Item]:
    """Yield what page after page holds; ``page`` takes the last id of the one before."""
    after = b""
    while True:
        found = page(after)
        yield from found
        if len(found) < QUERY_LIMIT_MAX:
            return
        after = found[-1].id


def _find(text: str, what: str, listed: Callable[[], Iterable["Order | Bid"]]) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{8,64}", text):
        raise CliError(
            f"{text}: not the id of a{'n' * (what == 'order')} {what}; it has 8 to 64 hex digits",
            Exit.USAGE,
        )
    if len(text) == 64:
        return bytes.fromhex(text)
    fitting = [item.id for item in listed() if item.id.hex().startswith(text.lower())]
    if len(fitting) != 1:
        raise CliError(f"{len(fitting)} {what}s begin with {text}; see assay {what} list")
    return fitting[0]


def amount(text: str, what: str) -> int:
    """Parse an amount of uassay: digits, with an optional ``uassay`` behind them."""
    digits = text.removesuffix("uassay")
    if not re.fullmatch(r"[0-9]{1,19}", digits):
        raise CliError(
            f"{what}: {text} is not an amount; write digits, as 2500000uassay", Exit.USAGE
        )
    return int(digits)


def duration(text: str, what: str) -> int:
    """Parse a duration as 90s, 15m, 2h or 7d (seconds without a unit)."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text)
    if not match:
        raise CliError(f"{what}: {text} is not a duration; write 90s, 15m, 2h or 7d", Exit.USAGE)
    return int(match[1]) * _UNITS[match[2] or "s"]


def tags(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list."""
    return tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))
