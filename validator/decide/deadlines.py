"""A validator's open duties and their deadlines, by kind, for its operator."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from domain.legs.records import Leg, LegState
from domain.proof.queries import PanelDuty


class DutyKind(StrEnum):
    """The kinds of duties. The first three belong to an order that the validator won, and the last two to a seat."""

    ACCEPT = "accept"  # to accept a match
    TRAIN = "train"  # to train a running order
    WINDOW = "window"  # to answer panels about own rounds, until their windows end
    COMMIT = "commit"  # to commit the answers of a seat
    REVEAL = "reveal"  # to reveal the answers of a seat


@dataclass(frozen=True, slots=True)
class OpenDuty:
    """A duty, and the chain seconds left for it: negative if its deadline has passed, None if it has no deadline."""

    kind: DutyKind
    order_id: bytes
    left: int | None


def open_duties(legs: Iterable[Leg], seats: Iterable[PanelDuty], clock: int, me: str) -> Iterator[OpenDuty]:
    """Yield the open duties of ``me`` at second ``clock`` of the chain's clock; skip other validators' legs."""
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
