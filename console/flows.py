"""The money of an order: where its deposit and its bonds went, as sums and as a flow diagram."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from console.story import OrderStory

_ORDER: Final = (
    "provider",
    "validator",
    "auditor",
    "protocol",
    "withheld_compensation",
    "withheld_burn",
    "part_burn",
    "deposit_burn",
    "refund_burn",
    "refund",
)
WIDTH: Final = 720
HEIGHT: Final = 260
"""Maximum height of a picture; a picture with few parts is lower."""
_GAP: Final = 10
_BAR: Final = 14
_RIGHT: Final = 300
"""x coordinate of the right-hand column; the labels are to its right."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A part of a sum: the kind of payment, the recipient (empty if there are several or none) and the amount."""

    kind: str
    to: str
    amount: int


@dataclass(frozen=True, slots=True)
class FlowAccount:
    """A sum that an order received (uassay), the payments from it, and the part ``held`` that is still in escrow."""

    total: int
    flows: tuple[Flow, ...]
    held: int
    # Part of ``held`` that is withheld from the validator until the order settles.
    withheld: int = 0

    @property
    def adds_up(self) -> bool:
        """True if the parts add up to the total and ``held`` is not negative."""
        return self.held >= 0 and self.total == self.held + sum(flow.amount for flow in self.flows)


def deposit_of(story: OrderStory) -> FlowAccount:
    """Return the payments from an order's deposit, and the part of the deposit that is still in escrow."""
    flows = _sum((p.kind, p.to, p.amount) for p in story.payments if not p.leg)
    paid = sum(flow.amount for flow in flows)
    return FlowAccount(total=story.deposit, flows=flows, held=story.deposit - paid, withheld=story.withheld)


def bonds_of(story: OrderStory) -> FlowAccount:
    """Return the payments from the bonds of an order's legs and shares, and the part that is still in escrow."""
    flows = _sum((p.kind, p.to, p.amount) for p in story.payments if p.leg)
    paid = sum(flow.amount for flow in flows)
    return FlowAccount(story.bonds_in, flows, story.bonds_in - paid)


def _sum(payments: Iterable[tuple[str, str, int]]) -> tuple[Flow, ...]:
    sums: dict[tuple[str, str], int] = {}
    for kind, to, amount in payments:
        sums[kind, to] = sums.get((kind, to), 0) + amount
    ranks = {kind: rank for rank, kind in enumerate(_ORDER)}
    ordered = sorted(sums.items(), key=lambda item: (ranks.get(item[0][0], 99), -item[1], item[0]))
    return tuple(Flow(kind, to, amount) for (kind, to), amount in ordered)


@dataclass(frozen=True, slots=True)
class Ribbon:
    """A part of the sum in the diagram: the outline of its band, its bar on the right and the position of its label."""

    kind: str
    amount: int
    path: str
    y: float
    height: float
    text_y: float


@dataclass(frozen=True, slots=True)
class FlowPicture:
    """A flow diagram: bands from the sum on the left to its parts on the right, in units of the SVG's view box."""

    width: int
    height: float
    bar: int
    left: float
    right: int
    ribbons: tuple[Ribbon, ...]


def draw(account: FlowAccount) -> FlowPicture | None:
    """Return the flow diagram of an account, with one band per kind of payment; None if no amount is positive."""
    parts: dict[str, int] = {}
    for flow in account.flows:
        parts[flow.kind] = parts.get(flow.kind, 0) + flow.amount
    if account.withheld:
        parts["withheld"] = account.withheld
    if account.held - account.withheld > 0:
        parts["held"] = account.held - account.withheld
    parts = {kind: amount for kind, amount in parts.items() if amount > 0}
    if not parts or account.total <= 0:
        return None
    # Each part has room for a line of text, even if its band is thin.
    height = min(HEIGHT, 56 * len(parts))
    scale = (height - _GAP * (len(parts) - 1)) / account.total
    left = right = 0.0
    ribbons = []
    start = _BAR
    for kind, amount in parts.items():
        thick = max(1.0, amount * scale)
        middle = (start + _RIGHT) / 2
        path = (
            f"M{start} {left:.1f}C{middle} {left:.1f} {middle} {right:.1f} {_RIGHT} {right:.1f}"
            f"V{right + thick:.1f}C{middle} {right + thick:.1f} {middle} {left + thick:.1f} {start} {left + thick:.1f}Z"
        )
        ribbons.append(Ribbon(kind=kind, amount=amount, path=path, y=right, height=thick, text_y=right + thick / 2))
        left += thick
        right += max(thick, 24.0) + _GAP
    return FlowPicture(
        width=WIDTH,
        height=max(left, right - _GAP),
        bar=_BAR,
        left=left,
        right=_RIGHT,
        ribbons=tuple(ribbons),
    )
