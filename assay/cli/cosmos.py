"""Queries of the Cosmos SDK's services: JSON as its REST gateways write it, or tables for people."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import click

from assay.cli.context import CommandContext
from assay.cli.output import money, table

F = TypeVar("F", bound=Callable[..., Any])
Answer = Mapping[str, Any]
"""An answer as JSON: names in snake_case, integers of 64 bits and decimal numbers as texts."""
_PAGE = 100


def ask(context: CommandContext, path: str, request: Any, response: Any) -> Answer:
    """Call a gRPC method and return its answer as JSON. ``response`` is the protobuf class of the answer."""
    import json

    from chain.app.rest.forms import to_json

    with context.client() as client:
        answer = client.call(path, request, response)
    document: Answer = json.loads(to_json(answer))
    return document


def show_rows(
    context: CommandContext,
    answer: Answer,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
) -> None:
    """Print an answer as JSON, or as a table for people. Say how to get the next page if there is one."""
    parts: list[Any] = [table(title, columns, rows)]
    if key := (answer.get("pagination") or {}).get("next_key"):
        parts.append(f"there are more: add --page-key {key}")
    context.output.result(answer, parts)


def show_params(context: CommandContext, service: str, title: str, request: Any, response: Any) -> None:
    """Print the parameters of a component."""
    answer = ask(context, f"{service}Params", request, response)
    rows = [(name, _param_text(value)) for name, value in answer["params"].items()]
    show_rows(context, answer, title, ("name", "value"), rows)


def _param_text(value: Any) -> str:
    if isinstance(value, list):
        return coins_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value not in (None, "") else "-"


class PageKeyParam(click.ParamType[bytes]):
    """The key of a page: the base64 text that the page before it has as ``next_key``."""

    name = "key"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the bytes of the key; raise a usage error for any other text."""
        if isinstance(value, bytes):
            return value
        try:
            return b64decode(value, validate=True)
        except (NotBase64, ValueError):
            self.fail(f"{value[:80]!r} is not the key of a page; use the one that the page before named", param, ctx)


PAGE_KEY = PageKeyParam()


def page_options(command: F) -> F:
    """Add the options of a list to a command, which gets them as the keyword ``page``: fields of a ``PageRequest``."""

    def wrapped(*args: Any, limit: int, page_key: bytes, **kwargs: Any) -> Any:
        return command(*args, page={"limit": limit, "key": page_key}, **kwargs)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = wrapped
    key = click.option("--page-key", type=PAGE_KEY, default=b"", help="Key of the page to show.  [the first page]")
    limit = click.option(
        "--limit", type=click.IntRange(1, 1_000), default=_PAGE, show_default=True, help="Most items of a page."
    )
    return limit(key(decorated))  # type: ignore[no-any-return]


# --- parts of answers as texts for people --------------------------------------------------------


def whole_amount(coins: Sequence[Mapping[str, str]]) -> int:
    """Return the uassay of a list of coins, without parts of 1 uassay."""
    return sum(int(Decimal(coin["amount"])) for coin in coins)


def coins_text(coins: Sequence[Mapping[str, str]]) -> str:
    """Return the amount of a list of coins as text in ASSAY."""
    return money(whole_amount(coins))


def percent_text(rate: str) -> str:
    """Return a rate as a percentage: 0.100000000000000000 becomes 10 %."""
    return f"{(Decimal(rate) * 100).normalize():f} %"


def time_text(time: str | None) -> str:
    """Return a time without fractions of a second: 2026-01-31T12:00:00.5Z becomes 2026-01-31 12:00:00 UTC."""
    if not time:
        return "-"
    return f"{time[:19].replace('T', ' ')} UTC"
