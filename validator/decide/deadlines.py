"""What a validator owes now, and by when: for its operator, who sees it by kind."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from domain.legs.records import Leg, LegState
from domain.proof.queries import PanelDuty


class DutyKind(StrEnum):
    """Kinds of duties in the order in which they come up: the first three of an order that it won."""

    ACCEPT = "accept"  # a match
    TRAIN = "train"
    WINDOW = "window"  # its rounds, which others recompute
    COMMIT = "commit"  # a seat in a panel about another's round
    REVEAL = "reveal"


@dataclass(frozen=True, slots=True)
class OpenDuty:
    """A duty and the chain seconds left for it: negative where its deadline has passed, None where it has none."""

    kind: DutyKind
    order_id: bytes
    left: int | None


def open_duties(legs: Iterable[Leg], seats: Iterable[PanelDuty], clock: int, me: str) -> Iterator[OpenDuty]:
    """Yield what ``me`` owes at second ``clock`` of the chain's clock; legs of others are nothing to it."""
    for leg in legs:
        if leg.validator != me or not leg.is_live:
            continue
        match leg.state:
            case LegState.MATCHED:
                kind, ends = DutyKind.ACCEPT, leg.accept_deadline
            case LegState.RUNNING:
                kind, ends = DutyKind.TRAIN, leg.progress_deadline
            case _:
                yield OpenDuty(DutyKind.WINDOW, leg.order_id, None)
                continue
        yield OpenDuty(kind, leg.order_id, ends - clock)
    for seat in seats:
        kind, ends = (DutyKind.REVEAL, seat.reveals_end) if seat.commitment else (DutyKind.COMMIT, seat.commits_end)
        yield OpenDuty(kind, seat.order_id, ends - clock)
