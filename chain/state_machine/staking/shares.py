"""The arithmetic of shares: parts of a sum that changes. Every division rounds in favour of those who stay."""

from collections.abc import Sequence

from domain.amount import ceil_div
from domain.staking.records import ONE


def shares_for(amount: int, tokens: int, shares: int) -> int:
    """Return the shares that ``amount`` buys, rounded down, if ``shares`` have ``tokens`` before."""
    if not shares:
        return amount * ONE
    return amount * shares // tokens if tokens else 0


def worth_of(part: int, tokens: int, shares: int) -> int:
    """Return the tokens that ``part`` of the shares is worth, rounded down."""
    return part * tokens // shares if shares else 0


def shares_to_sell(amount: int, own: int, tokens: int, shares: int) -> int:
    """Return the shares to give up for ``amount`` tokens, rounded up; all of ``own`` if the rest were worth nothing.

    ``own`` must be worth at least ``amount``.
    """
    sold = min(own, ceil_div(amount * shares, tokens))
    return own if worth_of(own - sold, tokens, shares) == 0 else sold


def divide(amount: int, parts: Sequence[int]) -> list[int]:
    """Divide ``amount`` in proportion to ``parts``, whose sum is at least ``amount``. No part gets more than it is."""
    total = sum(parts)
    divided = []
    for part in parts:
        own = amount * part // total if total else 0
        divided.append(own)
        amount -= own
        total -= part
    return divided
