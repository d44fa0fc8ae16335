"""Remarks of a seat about the seats of an earlier stage whose own end states it asked for (tier ``tolerance``).

The remarks about a stage are 32 bytes: a bit for each of its first seats that served a state outside the thresholds,
and then a bit for each that served none. Seats are counted in the order of the panel, among those with the same place.
A state outside the thresholds is a fact that every other seat finds again. That a state was not served is the word of
one seat, so it can cost the seat that says so nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from domain.proof.records import AnswerKind, SeatAnswer
from pol.rules.tiers.tier import Vote

SEATS_MAX = 128
"""The most seats of a stage about which remarks can be made; later seats are not reviewed."""
_BYTES = SEATS_MAX // 8
COMPARED = frozenset((AnswerKind.WITHIN, AnswerKind.OUTSIDE))
"""The kinds of answers of a seat that has compared an end state with its own."""


def write_remarks(outside: Iterable[int], unserved: Iterable[int]) -> bytes:
    """Return the remarks about the seats of a stage with these numbers, counted from 0."""
    parts = []
    for numbers in (outside, unserved):
        bits = 0
        for number in numbers:
            if number < SEATS_MAX:
                bits |= 1 << number
        parts.append(bits.to_bytes(_BYTES, "little"))
    return b"".join(parts)


def is_outside(remarks: bytes, number: int) -> bool:
    """Return whether remarks say that a seat served a state outside the thresholds."""
    return _has(remarks[:_BYTES], number)


def is_remarked(remarks: bytes, number: int) -> bool:
    """Return whether remarks say that a seat served a state outside the thresholds, or none."""
    return _has(remarks[:_BYTES], number) or _has(remarks[_BYTES:], number)


def _has(half: bytes, number: int) -> bool:
    return number < SEATS_MAX and bool(int.from_bytes(half, "little") >> number & 1)


class Standing(Enum):
    """The standing of a seat, by the remarks of later stages on its own end state."""

    GOOD = auto()
    BAD = auto()
    UNCLEAR = auto()


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A seat's standing, and whether some seat says that its state is outside the thresholds."""

    standing: Standing
    is_outside: bool = False


def review(votes: Sequence[Vote]) -> tuple[Reviewed, ...]:
    """Return the standing of each seat, in the order of ``votes``.

    A seat is bad if more than two thirds of the later seats remark on it, in two stages or more. So one seat alone
    never costs another one its pay. It is good if at most a third of them do.
    """
    return tuple(_reviewed(votes, vote, number) for vote, number in zip(votes, numbers_in_stage(votes), strict=True))


def numbers_in_stage(votes: Sequence[Vote]) -> tuple[int, ...]:
    """Return the number of each seat within its stage, counted from 0."""
    counts: dict[int, int] = {}
    numbers = []
    for vote in votes:
        numbers.append(counts.get(vote.stage, 0))
        counts[vote.stage] = numbers[-1] + 1
    return tuple(numbers)


def _reviewed(votes: Sequence[Vote], vote: Vote, number: int) -> Reviewed:
    later = [(other.stage, other.answer) for other in votes if other.stage > vote.stage and _has_compared(other)]
    remarks = [answer.earlier[vote.stage - 1] for _, answer in later if answer is not None]
    against = sum(is_remarked(each, number) for each in remarks)
    outside = any(is_outside(each, number) for each in remarks)
    if 3 * against <= len(remarks):
        return Reviewed(Standing.GOOD, outside)
    is_clear = 3 * against > 2 * len(remarks) and len({stage for stage, _ in later}) > 1
    return Reviewed(Standing.BAD if is_clear else Standing.UNCLEAR, outside)


def _has_compared(vote: Vote) -> bool:
    return vote.answer is not None and has_compared(vote.answer)


def has_compared(answer: SeatAnswer) -> bool:
    """Return whether a seat compared an end state with its own."""
    return answer.kind in COMPARED


def accuses_wrongly(votes: Sequence[Vote], vote: Vote, reviewed: Sequence[Reviewed]) -> bool:
    """Return whether a seat says that the state of a good seat is outside the thresholds."""
    if vote.answer is None or not has_compared(vote.answer):
        return False
    return any(
        is_outside(vote.answer.earlier[other.stage - 1], number)
        for other, number, found in zip(votes, numbers_in_stage(votes), reviewed, strict=True)
        if other.stage < vote.stage and found.standing is Standing.GOOD
    )
